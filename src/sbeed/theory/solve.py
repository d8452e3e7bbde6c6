"""The paper's algorithms with tables for everything and exact expectations: where they converge, and how fast."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP
from sbeed.ops import prox as ops_prox
from sbeed.ops.schedules import TwoTimeScales, constant
from sbeed.theory import exact
from sbeed.types import Array, Scalar


class Point(NamedTuple):
    """The primal variables, both tables: V [S] and the policy's logits [S, A]."""

    V: Array
    logits: Array

    @property
    def log_pi(self) -> Array:
        return jax.nn.log_softmax(self.logits)


def origin(mdp: FiniteMDP) -> Point:
    """V = 0 and the uniform policy."""
    return Point(jnp.zeros_like(mdp.mu), jnp.zeros_like(mdp.pi_b))


# ------------------------------------------------------------------------------------------------- distances

Prox = Callable[[Point, Point], Point]  # (z, g) -> argmin_w <w, g> + D(w, z); g carries the step size
Distance = Callable[[FiniteMDP, Scalar, Scalar], Prox]  # of (mdp, lam, eta)


def euclidean(mdp: FiniteMDP, lam: Scalar, eta: Scalar = 1.0) -> Prox:
    """D(w, z) = |w - z|^2 / 2: rare states and a small lam make it arbitrarily slow."""
    return lambda z, g: Point(*map(ops_prox.euclidean, z, g))


def kl_simplex(mdp: FiniteMDP, lam: Scalar, eta: Scalar = 1.0) -> Prox:
    """D_V = |V - V'|^2 / 2, D_pi = sum_s KL(pi(.|s) || pi'(.|s)): the paper's own choice, exact in the probabilities.

    In a state, the gradient in the logits is pi times (the gradient in pi less its mean under pi), so divided by pi it
    is the gradient in pi up to a constant, which the simplex does not feel. A rare action makes it slow: between it and
    the others ell bends at least 2 lam^2 mu pi_b (1 - pi) / pi times as much as KL does, exponential in 1 / lam.
    """
    return lambda z, g: Point(ops_prox.euclidean(z.V, g.V), ops_prox.kl_simplex(z.log_pi, g.logits / jnp.exp(z.log_pi)))


def data_weighted(mdp: FiniteMDP, lam: Scalar, eta: Scalar = 1.0) -> Prox:
    """|V|^2 weighted by mu, |logits|^2 by lam^2 mu pi_b: steps that neither rare states nor a small lam slow down."""
    weight = mdp.mu[:, None] * mdp.pi_b
    return lambda z, g: Point(z.V - g.V / mdp.mu, z.logits - g.logits / (lam**2 * weight))


def residual_norm(mdp: FiniteMDP, lam: Scalar, eta: Scalar = 1.0) -> Prox:
    """D_V = |V - V'|^2_{mu pi_b} / 2, D_pi = lam^2 E[(log pi - log pi')^2] / 2: how far each moves the residual.

    The norm of V is the paper's own (`operators.state_norm`); with eta < 1 it counts (1 - eta) Var[gamma V(s')], as
    L_eta does. Neither gamma nor mu nor lam then sets the pace: what is left is how well pi_b covers pi,
    sum_a pi^2 / pi_b. The policy's prox is to first order in the step, as with KL. The norm of V is made from P, which
    a learner does not know: `price` counts what it saves.
    """
    weight = mdp.mu[:, None] * mdp.pi_b
    moved = mdp.gamma * mdp.P - jnp.eye(mdp.states, dtype=mdp.P.dtype)[:, None]
    of_mean = jnp.einsum("sa,sax,say->xy", weight, moved, moved)
    visits_next = jnp.einsum("sa,sax->x", weight, mdp.P)
    of_variance = jnp.diag(visits_next) - jnp.einsum("sa,sax,say->xy", weight, mdp.P, mdp.P)
    gram = jax.scipy.linalg.cho_factor(of_mean + (1 - eta) * mdp.gamma**2 * of_variance)

    def prox(z: Point, g: Point) -> Point:
        # Moving log pi keeps sum_a pi = 1, so a step d has sum_a pi d = 0: the multiplier sees to it.
        pi, scale = jnp.exp(z.log_pi), lam**2 * weight
        multiplier = jnp.sum(pi * g.logits / scale, -1) / jnp.sum(pi**2 / scale, -1)
        return Point(
            z.V - jax.scipy.linalg.cho_solve(gram, g.V),
            z.log_pi - (g.logits - multiplier[:, None] * pi) / scale,
        )

    return prox


# ------------------------------------------------------------------------------------------------- algorithms


def primal_gradient(mdp: FiniteMDP, z: Point, rho: Array, lam: Scalar, eta: Scalar) -> Point:
    """The gradient of L_eta in (V, logits) with rho held: thm:gradient_estimator."""

    def objective(z: Point) -> Array:
        return exact.L_eta(mdp, z.V, z.log_pi, rho, lam, eta)

    return jax.grad(objective)(z)


def algorithm_1(
    mdp: FiniteMDP,
    lam: Scalar,
    *,
    iterations: int,
    step_size: Scalar = 0.4,
    start: Point | None = None,
    eta: Scalar = 1.0,
    distance: Distance = residual_norm,
) -> Point:
    """z <- P_z(step_size grad L_eta(z; rho*(z))), the dual solved exactly.   [paper: alg:sbeed, lines 7-10]

    In the residual's norm the curvature is below 4 near the solution, whatever the MDP: constant steps below 1/2 do.
    """
    prox = distance(mdp, lam, eta)

    def step(_: Array, z: Point) -> Point:
        rho = exact.delta_bar(mdp, z.V, z.log_pi, lam)
        return prox(z, scaled(step_size, primal_gradient(mdp, z, rho, lam, eta)))

    return jax.lax.fori_loop(0, iterations, step, origin(mdp) if start is None else start)


STEADY = TwoTimeScales(primal=constant(0.02), dual=constant(0.4))


def algorithm_2(
    mdp: FiniteMDP,
    lam: Scalar,
    *,
    iterations: int,
    steps: TwoTimeScales = STEADY,
    start: Point | None = None,
    eta: Scalar = 1.0,
    distance: Distance = residual_norm,
) -> Point:
    """Both players move at once; the dual only *descends* E[(delta - rho)^2].   [paper: alg:sbeed_dual_nn, sign of E1]

    The dual's table is nu, so that rho = V + nu follows V at once; it moves in the norm of the data, from nu = 0. A
    primal step that is not small against the dual's diverges all the same: with rho behind, L_eta is unbounded below.
    """
    prox = distance(mdp, lam, eta)
    weight = mdp.mu[:, None] * mdp.pi_b

    def step(j: Array, state: tuple[Point, Array]) -> tuple[Point, Array]:
        z, nu = state
        rho = equations.rho_from_nu(nu, z.V[:, None])
        g_rho = jax.grad(lambda rho: exact.dual_loss(mdp, z.V, z.log_pi, rho, lam))(rho)
        g = primal_gradient(mdp, z, rho, lam, eta)
        return prox(z, scaled(steps.primal(j), g)), nu - steps.dual(j) * g_rho / weight

    state = (origin(mdp) if start is None else start, jnp.zeros_like(mdp.pi_b))
    return jax.lax.fori_loop(1, iterations + 1, step, state)[0]


def settled(round_of_steps: Callable[[Array, Point], Point], start: Point, tolerance: Scalar, *, most: int) -> Point:
    """z <- round_of_steps(i, z), i = 0, 1, ... < most, until a round moves V by `tolerance` at most, in every state.

    How many it takes depends on how well pi_b covers pi*: one MDP in a thousand needs twenty times what most do.
    """

    def moving(state: tuple[Array, Array, Point]) -> Array:
        i, moved, _ = state
        return (i < most) & (moved > tolerance)

    def another(state: tuple[Array, Array, Point]) -> tuple[Array, Array, Point]:
        i, _, z = state
        new = round_of_steps(i, z)
        return i + 1, jnp.max(jnp.abs(new.V - z.V)), new

    return jax.lax.while_loop(moving, another, (jnp.array(0), jnp.full((), jnp.inf, start.V.dtype), start))[2]


def newton(loss: Callable[[Array], Array], w: Array, *, iterations: int) -> Array:
    """A local minimum by Newton's method, damped more in place of a step that would not descend, less after one."""

    def step(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        w, damping = state
        eye = jnp.eye(w.size, dtype=w.dtype)
        new = w - jnp.linalg.solve(jax.hessian(loss)(w) + damping * eye, jax.grad(loss)(w))
        better = loss(new) < loss(w)
        return jnp.where(better, new, w), jnp.where(better, damping / 4, damping * 4)

    return jax.lax.fori_loop(0, iterations, step, (w, jnp.ones((), w.dtype)))[0]


def scaled(step_size: Scalar, g: Point) -> Point:
    return Point(step_size * g.V, step_size * g.logits)
