"""The theorem's gradient in Q-coordinates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import V_of, log_pi_of
from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import parametric, q_form
from sbeed.theory.claim import Claim, Statement, central_differences, draw, equal, every
from sbeed.theory.claims.q_envelope import envelope
from sbeed.theory.claims.variance_cancellation import bootstrap_variance
from sbeed.theory.enumerate import transitions
from sbeed.theory.parametric import DualClass, Followed
from sbeed.types import Array, Key, Scalar

FEATURES = 5  # of Q, and of a dual that is too small: fewer than the S A = 18 pairs


class Problem(NamedTuple):
    """Q(s, a) = phi(s, a)^T w, misspecified, and its objective."""

    mdp: FiniteMDP
    phi: Array  # [S, A, D]
    lam: Scalar
    eta: Scalar

    def v(self, w: Array) -> Array:
        return self.phi @ w

    def L_eta(self, w: Array, rho: Array, kappa: Scalar = 1.0) -> Array:
        return q_form.L_eta(self.mdp, self.phi @ w, rho, self.lam, self.eta, kappa=kappa)

    def delta_bar(self, w: Array) -> Array:
        return q_form.delta_bar(self.mdp, self.phi @ w, self.lam)

    def maximised(self, w: Array) -> Array:
        return maximised(self.mdp, self.phi @ w, self.lam, self.eta)

    def theorem(self, w: Array, nu: Array) -> Array:
        """-2 E[(delta - Q) grad Q(s, a)] + 2 gamma E[((1 - eta) (delta - Q) + eta nu) grad V_Q(s')]"""
        mdp, phi, lam, eta = self
        t, Q = transitions(mdp), phi @ w
        dV, error = envelope(log_pi_of(Q, lam=lam), phi), q_form.td(mdp, Q, lam)
        backward = (1 - eta) * error + eta * nu[t.s, t.a]
        forward = -equations.mean(error[:, None] * phi[t.s, t.a], t.weight)
        return 2 * forward + 2 * mdp.gamma * equations.mean(backward[:, None] * dV[t.s_next], t.weight)


def maximised(mdp: FiniteMDP, Q: Array, lam: Scalar, eta: Scalar) -> Array:
    """max over all rho of L_eta(Q; rho) = ell(Q) + (1 - eta) gamma^2 E Var[V_Q(s')]"""
    return q_form.ell(mdp, Q, lam) + (1 - eta) * bootstrap_variance(mdp, V_of(Q, lam=lam))


def shared(problem: Problem, w: Array, nu: Array) -> Array:
    """The same by the function of the (V, pi) form, Q in the place of V(s)."""
    mdp, phi, lam, eta = problem
    t, Q = transitions(mdp), phi @ w
    dV, q = envelope(log_pi_of(Q, lam=lam), phi), Q[t.s, t.a]
    delta = q_form.td(mdp, Q, lam) + q
    rho = equations.rho_from_nu(nu[t.s, t.a], q)
    return equations.V_gradient(delta, q, rho, phi[t.s, t.a], dV[t.s_next], gamma=mdp.gamma, eta=eta, weight=t.weight)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """g = -2 E[(delta - Q) grad Q(s, a)] + 2 gamma E[((1 - eta) (delta - Q) + eta nu) grad V_Q(s')], nu = rho - Q,

    is autodiff of L_eta with rho held, and the gradient of the maximum over rho where rho attains it in

    all functions: of max L_eta = ell + (1 - eta) gamma^2 E Var[V_Q(s')];
    psi^T u: of max (L_eta - eta ridge |u|^2), with a ridge or without, whatever psi;
    Q + psi^T u, what the learner has: of that maximum over the class as it stands, with the Q of this moment.

    The last class moves with Q. Over the moving one the gradient is that of nu held,
    g + 2 eta E[(delta - Q - nu) grad Q], which is g only if nu leaves nothing along grad Q. Least squares leave nothing
    where grad Q is among nu's features, as for the last layer of a Q whose nu is a head on it; a ridge leaves ridge u.
    """
    k_draw, k_phi, k_psi, k_w, k_rest = jax.random.split(key, 5)
    eta, ridge = jax.random.uniform(k_rest, (2,))
    phi, few = (jax.random.normal(k, (*mdp.R.shape, FEATURES)) for k in (k_phi, k_psi))
    problem, w = Problem(mdp, phi, draw(mdp, k_draw).lam, eta), jax.random.normal(k_w, (FEATURES,))

    exact = parametric.table(mdp)
    with_table, by_table = of_class(problem, exact, w)
    small = DualClass(jnp.stack([few, few, phi, phi]), jnp.array([0, ridge, 0, ridge]))
    with_small, by_small = jax.vmap(lambda dual: of_class(problem, dual, w))(small)
    left_by_ridge = 2 * eta * DualClass(phi, ridge).penalty(mdp) * by_small.u[3]
    return every(
        with_table,
        equal(by_table.added, 0.0, 1e-10),
        equal(central_differences(problem.maximised, w), problem.theorem(w, by_table.nu), 1e-6),
        *(jax.tree.map(lambda x, i=i: x[i], with_small) for i in range(4)),
        equal(by_small.added[2], 0.0, 1e-10),
        equal(by_small.added[3], left_by_ridge, 1e-10),
    )


def of_class(problem: Problem, dual: DualClass, w: Array) -> tuple[Claim, Followed]:
    """Which gradient belongs to which objective, for rho = psi^T u and for rho = Q + psi^T u."""
    found = parametric.following(problem, dual, w)
    same_function = equal(shared(problem, w, found.nu), problem.theorem(w, found.nu), 1e-10)
    return every(parametric.of_its_own(problem, dual, w), found.claim, same_function), found


def noisy_problem(eta: Scalar = 1.0) -> tuple[Problem, Array]:
    """Three features for the four pairs of two noisy states."""
    phi = jnp.array([[[1.0, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 1, 1]]])
    return Problem(two_state(noise=0.5), phi, 0.5, eta), jnp.array([1.0, -1, 2])


def counterexample() -> Claim:
    """kappa = 0, the backward term left out: the semi-gradient."""
    problem, w = noisy_problem()
    semi = jax.grad(problem.L_eta)(w, problem.delta_bar(w), kappa=0.0)
    return equal(semi, jax.grad(problem.maximised)(w))


STATEMENT = Statement(
    name="q_gradient",
    says=(
        "the theorem in Q-coordinates: autodiff of L_eta with rho held = the formula = the gradient of the maximum "
        "over rho, exact, in few features or with a ridge; where rho follows Q, what nu leaves along grad Q is added"
    ),
    labels=("thm:gradient_estimator",),
    check=check,
    without="the backward term: the semi-gradient (kappa 0) is another direction",
    counterexample=counterexample,
)
