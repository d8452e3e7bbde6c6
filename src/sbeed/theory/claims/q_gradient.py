"""The theorem's gradient in Q-coordinates."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import V_of, log_pi_of
from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.ops.linalg import ridge_solve
from sbeed.theory import q_form
from sbeed.theory.claim import Claim, Statement, central_differences, draw, equal, every
from sbeed.theory.claims.q_envelope import envelope
from sbeed.theory.claims.variance_cancellation import bootstrap_variance
from sbeed.theory.enumerate import transitions
from sbeed.types import Array, Key, Scalar

FEATURES = 5  # of Q, and of a dual that is too small: fewer than the S A = 18 pairs


class Problem(NamedTuple):
    """Q(s, a) = phi(s, a)^T w, misspecified, and its objective."""

    mdp: FiniteMDP
    phi: Array  # [S, A, D]
    lam: Scalar
    eta: Scalar

    def L_eta(self, w: Array, rho: Array, kappa: Scalar = 1.0) -> Array:
        return q_form.L_eta(self.mdp, self.phi @ w, rho, self.lam, self.eta, kappa=kappa)

    def delta_bar(self, w: Array) -> Array:
        return q_form.delta_bar(self.mdp, self.phi @ w, self.lam)

    def maximised(self, w: Array) -> Array:
        return maximised(self.mdp, self.phi @ w, self.lam, self.eta)


class DualClass(NamedTuple):
    """rho = base + psi^T u, with ridge |u|^2 taken off L_eta, eta times, so that the dual's loss has it once."""

    psi: Array  # [S, A, E]
    ridge: Scalar  # in units of the features' mean square

    def penalty(self, mdp: FiniteMDP) -> Array:
        return self.ridge * jnp.trace(self._gram(mdp)) / self.psi.shape[-1]

    def fitted(self, mdp: FiniteMDP, goal: Array) -> Array:
        """u of least E[(goal - psi^T u)^2] + penalty |u|^2.   goal: E[. | s, a] [S, A]"""
        weight = mdp.mu[:, None] * mdp.pi_b
        return ridge_solve(self._gram(mdp), jnp.einsum("sa,sae->e", weight * goal, self.psi), self.ridge)

    def _gram(self, mdp: FiniteMDP) -> Array:
        return jnp.einsum("sa,sae,saf->ef", mdp.mu[:, None] * mdp.pi_b, self.psi, self.psi)


def maximised(mdp: FiniteMDP, Q: Array, lam: Scalar, eta: Scalar) -> Array:
    """max over all rho of L_eta(Q; rho) = ell(Q) + (1 - eta) gamma^2 E Var[V_Q(s')]"""
    return q_form.ell(mdp, Q, lam) + (1 - eta) * bootstrap_variance(mdp, V_of(Q, lam=lam))


def theorem(problem: Problem, w: Array, nu: Array) -> Array:
    """-2 E[(delta - Q) grad Q(s, a)] + 2 gamma E[((1 - eta) (delta - Q) + eta nu) grad V_Q(s')]   nu: [S, A] -> [D]"""
    mdp, phi, lam, eta = problem
    t, Q = transitions(mdp), phi @ w
    dV, error = envelope(log_pi_of(Q, lam=lam), phi), q_form.td(mdp, Q, lam)
    backward = (1 - eta) * error + eta * nu[t.s, t.a]
    forward = -equations.mean(error[:, None] * phi[t.s, t.a], t.weight)
    return 2 * forward + 2 * mdp.gamma * equations.mean(backward[:, None] * dV[t.s_next], t.weight)


def shared(problem: Problem, w: Array, nu: Array) -> Array:
    """The same by the function of the (V, pi) form, Q in the place of V(s)."""
    mdp, phi, lam, eta = problem
    t, Q = transitions(mdp), phi @ w
    dV, q = envelope(log_pi_of(Q, lam=lam), phi), Q[t.s, t.a]
    delta = q_form.td(mdp, Q, lam) + q
    rho = equations.rho_from_nu(nu[t.s, t.a], q)
    return equations.V_gradient(delta, q, rho, phi[t.s, t.a], dV[t.s_next], gamma=mdp.gamma, eta=eta, weight=t.weight)


def nu_moves_rho(problem: Problem, w: Array, nu: Array) -> Array:
    """2 eta E[(delta - Q - nu) grad Q(s, a)]: what is added where nu is held, and so rho = Q + nu follows Q.   [D]"""
    mdp, phi, _, eta = problem
    left = mdp.mu[:, None] * mdp.pi_b * (problem.delta_bar(w) - phi @ w - nu)
    return 2 * eta * jnp.einsum("sa,sad->d", left, phi)


def profile(problem: Problem, dual: DualClass, w: Array, base: Array, follows: Scalar) -> Array:
    """max over u of L_eta(Q; base + follows Q + psi^T u) - eta penalty |u|^2"""
    base = base + follows * (problem.phi @ w)
    u = dual.fitted(problem.mdp, problem.delta_bar(w) - base)
    return problem.L_eta(w, base + dual.psi @ u) - problem.eta * dual.penalty(problem.mdp) * (u @ u)


def of_class(problem: Problem, dual: DualClass, w: Array) -> tuple[Claim, Array, Array]:
    """Which gradient belongs to which objective; and what nu held adds, and u."""
    mdp, Q = problem.mdp, problem.phi @ w
    # Three classes of rho: of its own, Q + psi^T u with the Q of this moment, and one that follows Q.
    bases, follows = jnp.stack([0 * Q, Q, 0 * Q]), jnp.array([0.0, 0.0, 1.0])
    of_own, u = dual.psi @ dual.fitted(mdp, problem.delta_bar(w)), dual.fitted(mdp, problem.delta_bar(w) - Q)
    nu = dual.psi @ u
    held, added = theorem(problem, w, nu), nu_moves_rho(problem, w, nu)
    slopes = jax.vmap(lambda base, follows: central_differences(lambda w: profile(problem, dual, w, base, follows), w))(
        bases, follows
    )
    claim = every(
        equal(shared(problem, w, nu), held, 1e-10),
        equal(jax.grad(problem.L_eta)(w, Q + nu), held, 1e-10),
        equal(jax.grad(lambda w: problem.L_eta(w, problem.phi @ w + nu))(w), held + added, 1e-10),
        equal(slopes, jnp.stack([theorem(problem, w, of_own - Q), held, held + added]), 1e-6),
    )
    return claim, added, u


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

    table = DualClass(jnp.eye(mdp.R.size).reshape(*mdp.R.shape, -1), 0.0)
    of_table, added_by_table, u = of_class(problem, table, w)
    exact_nu = u.reshape(mdp.R.shape)
    small = DualClass(jnp.stack([few, few, phi, phi]), jnp.array([0, ridge, 0, ridge]))
    of_small, added, u = jax.vmap(lambda dual: of_class(problem, dual, w))(small)
    left_by_ridge = 2 * eta * DualClass(phi, ridge).penalty(mdp) * u[3]
    return every(
        of_table,
        equal(added_by_table, 0.0, 1e-10),
        equal(central_differences(problem.maximised, w), theorem(problem, w, exact_nu), 1e-6),
        *(jax.tree.map(lambda x, i=i: x[i], of_small) for i in range(4)),
        equal(added[2], 0.0, 1e-10),
        equal(added[3], left_by_ridge, 1e-10),
    )


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
