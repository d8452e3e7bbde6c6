"""The theorem's primal gradient with a dual that has parameters of its own."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact, parametric
from sbeed.theory.claim import Claim, Statement, central_differences, draw, equal, every
from sbeed.theory.claims.variance_cancellation import bootstrap_variance
from sbeed.theory.enumerate import transitions
from sbeed.theory.parametric import DualClass
from sbeed.types import Array, Key, Scalar

OF_V, OF_PI, OF_RHO = 3, 4, 5  # features: fewer than the 6 states and the 18 pairs, so all three are misspecified


class Problem(NamedTuple):
    """V = phi^T w_V and pi = softmax(chi^T w_pi), their parameters in one vector w, and their objective."""

    mdp: FiniteMDP
    phi: Array  # [S, D]
    chi: Array  # [S, A, E]
    lam: Scalar
    eta: Scalar

    def V(self, w: Array) -> Array:
        return self.phi @ w[: self.phi.shape[-1]]

    def log_pi(self, w: Array) -> Array:
        return jax.nn.log_softmax(self.chi @ w[self.phi.shape[-1] :])

    def v(self, w: Array) -> Array:
        return jnp.broadcast_to(self.V(w)[:, None], self.mdp.R.shape)

    def delta_bar(self, w: Array) -> Array:
        return exact.delta_bar(self.mdp, self.V(w), self.log_pi(w), self.lam)

    def L_eta(self, w: Array, rho: Array) -> Array:
        return exact.L_eta(self.mdp, self.V(w), self.log_pi(w), rho, self.lam, self.eta)

    def maximised(self, w: Array) -> Array:
        """max over all rho of L_eta(V, pi; rho) = ell + (1 - eta) gamma^2 E Var[V(s')]"""
        V = self.V(w)
        ell = exact.ell(self.mdp, V, self.log_pi(w), self.lam)
        return ell + (1 - self.eta) * bootstrap_variance(self.mdp, V)

    def theorem(self, w: Array, nu: Array) -> Array:
        """Both formulas of thm:gradient_estimator."""
        mdp, phi, _, lam, eta = self
        t, V = transitions(mdp), self.V(w)
        delta, v = exact.delta(mdp, V, self.log_pi(w), lam), V[t.s]
        rho = equations.rho_from_nu(nu[t.s, t.a], v)
        dlog_pi = jax.jacobian(self.log_pi)(w)[t.s, t.a, phi.shape[-1] :]
        g_V = equations.V_gradient(delta, v, rho, phi[t.s], phi[t.s_next], gamma=mdp.gamma, eta=eta, weight=t.weight)
        g_pi = equations.pi_gradient(delta, v, rho, dlog_pi, lam=lam, eta=eta, weight=t.weight)
        return jnp.concatenate([g_V, g_pi])


def random_problem(mdp: FiniteMDP, key: Key) -> tuple[Problem, Array, DualClass]:
    """A problem, a point w, and two dual classes of the same few features, stacked: without a ridge and with one."""
    k_draw, k_phi, k_chi, k_psi, k_w, k_rest = jax.random.split(key, 6)
    eta, ridge = jax.random.uniform(k_rest, (2,))
    phi, chi = jax.random.normal(k_phi, (mdp.states, OF_V)), jax.random.normal(k_chi, (*mdp.R.shape, OF_PI))
    psi = jax.random.normal(k_psi, (*mdp.R.shape, OF_RHO))
    w = jax.random.normal(k_w, (OF_V + OF_PI,))
    few = DualClass(jnp.stack([psi, psi]), jnp.array([0, ridge]))
    return Problem(mdp, phi, chi, draw(mdp, k_draw).lam, eta), w, few


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Let rho be the best of a class. The theorem's formula there, autodiff of L_eta with rho held and the gradient of

    all functions: max L_eta = ell + (1 - eta) gamma^2 E Var[V(s')],
    psi^T u, with a ridge b >= 0: max (L_eta - eta b |u|^2) = that - eta min_u (E[(rho* - psi^T u)^2] + b |u|^2)

    are one direction, whatever psi, V and pi. The proof is in docs/proofs.md.
    """
    problem, w, few = random_problem(mdp, key)
    everything = parametric.table(mdp)
    best = problem.delta_bar(w)

    def of_class(dual: DualClass) -> tuple[Claim, Array, Array]:
        value = parametric.profile(problem, dual, w, 0 * best, 0.0)
        return parametric.of_its_own(problem, dual, w), value, dual.missed(mdp, best)

    with_few, value, missed = jax.vmap(of_class)(few)
    theorem = problem.theorem(w, best - problem.v(w))
    return every(
        of_class(everything)[0],
        equal(central_differences(problem.maximised, w), theorem, 1e-6),
        *(jax.tree.map(lambda x, i=i: x[i], with_few) for i in range(2)),
        equal(value, problem.maximised(w) - problem.eta * missed, 1e-10),
    )


def noisy_problem(eta: Scalar = 1.0) -> tuple[Problem, Array]:
    """One feature for V and two for pi, of two noisy states."""
    phi, chi = jnp.array([[1.0], [2.0]]), jnp.array([[[1.0, 0], [0, 1]], [[1, 1], [0, 0]]])
    return Problem(two_state(noise=0.5), phi, chi, 0.5, eta), jnp.array([2.0, 1, -1])


ONE_FEATURE = jnp.array([[[1.0], [0.0]], [[1.0], [-1.0]]])


def counterexample() -> Claim:
    """L_eta itself at the rho that a ridge shrinks, the penalty left out: rho is no maximum, so its motion counts."""
    problem, w = noisy_problem()
    dual = DualClass(ONE_FEATURE, 0.5)

    def at_ridge(w: Array) -> tuple[Array, Array]:
        rho = dual.psi @ dual.fitted(problem.mdp, problem.delta_bar(w))
        return problem.L_eta(w, rho), rho

    g, rho = jax.grad(at_ridge, has_aux=True)(w)
    return equal(g, problem.theorem(w, rho - problem.v(w)))


STATEMENT = Statement(
    name="parametric_dual",
    says=(
        "with rho the best of psi^T u, exact, in few features or with a ridge, the theorem is the gradient of the "
        "maximum of L_eta less the ridge's penalty: ell + (1 - eta) gamma^2 E Var - eta (what psi misses of rho*)"
    ),
    labels=("thm:gradient_estimator",),
    check=check,
    without="the penalty in the objective: where a ridge shrinks rho, it is not the gradient of L_eta itself",
    counterexample=counterexample,
)
