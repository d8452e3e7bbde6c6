"""Baird's seven-state star: where semi-gradient Q-learning diverges and SBEED converges.

Six upper states and a seventh. The dashed action leads to an upper state drawn uniformly, the solid one to the seventh;
no reward, gamma .99. The data takes dashed with probability 6/7, so its states are uniform. Eight weights make V:
2 w_i + w_8 at the upper states, w_7 + 2 w_8 at the seventh: every V is representable, the true V = 0 by w = 0.

What SBEED converges to is not that 0 but the smoothed solution: both actions are equally good, so pi*_lam is a fair
coin and V*_lam = lam log 2 / (1 - gamma) at every state, 6.93 at lam .1. Both methods are measured by one error, of V
alone: E[((T_lam V)(s) - V(s))^2], V = max_a Q for Q-learning. Both start from the same V.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory import exact
from sbeed.theory.claims.squared_bellman_error import smoothed_squared_error
from sbeed.theory.operators import backup
from sbeed.theory.solve import Point, primal_gradient, residual_norm, scaled
from sbeed.types import Array, Scalar

T = TypeVar("T")

STATES, FEATURES = 7, 8
DASHED, SOLID = 0, 1
LAM = 0.1


class Run(NamedTuple):
    """One row per recorded iteration."""

    iteration: Array
    weight_norm: Array  # |w| of the values
    bellman_error: Array  # E[((T_lam V)(s) - V(s))^2] over the data's states


def star(gamma: float = 0.99) -> FiniteMDP:
    P = np.zeros((STATES, 2, STATES))
    P[:, DASHED, :6] = 1 / 6
    P[:, SOLID, 6] = 1
    return finite_mdp(P, np.zeros((STATES, 2)), pi_b=np.tile([6 / 7, 1 / 7], (STATES, 1)), gamma=gamma)


def state_features() -> np.ndarray:
    """[7, 8]"""
    phi = np.zeros((STATES, FEATURES))
    phi[:6, :6] = 2 * np.eye(6)
    phi[:6, 7] = 1
    phi[6, 6], phi[6, 7] = 1, 2
    return phi


def initial_weights() -> np.ndarray:
    """The usual start: 1 everywhere, 10 for the seventh state's own weight."""
    return np.array([1.0, 1, 1, 1, 1, 1, 10, 1])


def q_learning(*, iterations: int, step_size: Scalar = 0.1, every: int = 1) -> Run:
    """w <- w + step_size E[(R + gamma max_a' Q(s', a') - Q(s, a)) dQ(s, a)], the maximum held: a semi-gradient.

    The control form of the example: each action has eight weights of its own, Q(s, a) = phi(s)^T w_a.
    Solid starts from the usual weights and dashed from 1, so that solid is greedy, as the example's target policy is.
    Expectations are exact: what diverges is the method, not its noise.
    """
    mdp, phi = star(), jnp.asarray(state_features())
    weight = mdp.mu[:, None] * mdp.pi_b

    def update(w: Array) -> Array:
        Q = phi @ w.T
        error = backup(mdp, Q.max(-1)) - Q
        return w + step_size * jnp.einsum("sa,sd->ad", weight * error, phi)

    def measure(w: Array) -> tuple[Array, Array]:
        return jnp.linalg.norm(w), smoothed_squared_error(mdp, (phi @ w.T).max(-1), LAM)

    start = jnp.stack([jnp.ones(FEATURES), jnp.asarray(initial_weights())])
    return _record(update, measure, start, iterations, every)


def sbeed(*, iterations: int, step_size: Scalar = 0.1, plain: bool = False, every: int = 1) -> Run:
    """Algorithm 1 on the same data: V(s) = phi(s)^T w, a softmax table for pi, eta = 1, the dual solved exactly.

    plain: steps along the gradient in w, as Q-learning takes them, instead of prox-mappings in the residual's norm;
    they end at the same V, but take a hundred times as many.
    """
    mdp, phi = star(), jnp.asarray(state_features())
    prox, weights_of = residual_norm(mdp, LAM), jnp.linalg.pinv(phi)

    def update(state: tuple[Array, Array]) -> tuple[Array, Array]:
        w, logits = state
        z = Point(phi @ w, logits)
        rho = exact.delta_bar(mdp, z.V, z.log_pi, LAM)
        g = scaled(step_size, primal_gradient(mdp, z, rho, LAM, 1.0))
        if plain:
            return w - phi.T @ g.V, logits - g.logits
        new = prox(z, g)
        # Every V has weights, and the distance sees V alone: the shortest change of w that makes the step.
        return w + weights_of @ (new.V - z.V), new.logits

    def measure(state: tuple[Array, Array]) -> tuple[Array, Array]:
        w, _ = state
        return jnp.linalg.norm(w), smoothed_squared_error(mdp, phi @ w, LAM)

    return _record(update, measure, (jnp.asarray(initial_weights()), jnp.zeros((STATES, 2))), iterations, every)


def _record(
    update: Callable[[T], T], measure: Callable[[T], tuple[Array, Array]], start: T, iterations: int, every: int
) -> Run:
    """`measure` before the first update and after each `every` of them."""

    def rows(state: T, _: None) -> tuple[T, tuple[Array, Array]]:
        return jax.lax.fori_loop(0, every, lambda _, x: update(x), state), measure(state)

    count = iterations // every + 1
    _, (weight_norm, bellman_error) = jax.jit(lambda: jax.lax.scan(rows, start, length=count))()
    return Run(every * jnp.arange(count), weight_norm, bellman_error)
