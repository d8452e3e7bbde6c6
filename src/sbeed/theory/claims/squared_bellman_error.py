"""The squared Bellman error and its kinks."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import backup, bellman, hard_optimum, smoothed_bellman
from sbeed.types import Array, Key, Scalar


def squared_error(mdp: FiniteMDP, V: Array) -> Array:
    """E_mu[((T V)(s) - V(s))^2].   [paper: eq:mean_square_bellman_opt]"""
    return equations.mean((bellman(mdp, V) - V) ** 2, mdp.mu)


def smoothed_squared_error(mdp: FiniteMDP, V: Array, lam: Scalar) -> Array:
    """The same with T_lam."""
    return equations.mean((smoothed_bellman(mdp, V, lam) - V) ** 2, mdp.mu)


def last_ties(mdp: FiniteMDP, V: Array, direction: Array) -> tuple[Array, Array]:
    """Where on the line V + t direction the best action of each state changes for the last time, and by what slope.

    Each action's backup is a line in t and the maximum their upper envelope: for large t the steepest is on top, and it
    got there where it overtook the last of the others.   t, slope after - slope before: [S], [S]
    """
    height, slope = backup(mdp, V), mdp.gamma * mdp.P @ direction
    top = jax.nn.one_hot(slope.argmax(-1), mdp.actions, dtype=bool)
    lead = slope.max(-1, keepdims=True) - slope
    deficit = height - jnp.sum(height, axis=-1, where=top, keepdims=True)
    overtaken = jnp.where(top, -jnp.inf, deficit / jnp.where(top, 1, lead))
    rival = overtaken.argmax(-1, keepdims=True)
    return overtaken.max(-1), jnp.take_along_axis(lead, rival, -1)[:, 0]


def kink(f: Callable[[Array], Array], t: Array) -> Array:
    """f'(t+) - f'(t-), each side's derivative f' extended linearly to t from two points close by.

    Exact where f is quadratic on either side; where it is smooth, off by the square of 1e-7.
    """
    steps = 1e-7 * (1 + jnp.abs(t)) * jnp.array([1, 2, -1, -2])
    right, further_right, left, further_left = jax.vmap(lambda h: jax.jvp(f, (t + h,), (jnp.ones_like(t),))[1])(steps)
    return (2 * right - further_right) - (2 * left - further_left)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Zero at V*, at least min mu ((1 - gamma) ||V - V*||_inf)^2 elsewhere, and not smooth; smoothed, it is.

    Where the best action of s changes along a line, the derivative jumps by 2 mu(s) (T V - V)(s) (change of slope).
    """
    point, V_star = draw(mdp, key), hard_optimum(mdp)
    direction = point.logits[:, 0]  # any random vector would do

    def along(t: Array) -> Array:
        """The two objectives on the line."""
        V = point.V + t * direction
        return jnp.stack([squared_error(mdp, V), smoothed_squared_error(mdp, V, point.lam)])

    ties, slope_change = last_ties(mdp, point.V, direction)
    error = jax.vmap(lambda t: bellman(mdp, point.V + t * direction) - point.V - t * direction)(ties)
    jump = 2 * mdp.mu * jnp.diagonal(error) * slope_change
    hard, soft = jax.vmap(lambda t: kink(along, t))(ties).T
    growth = mdp.mu.min() * ((1 - mdp.gamma) * jnp.abs(point.V - V_star).max()) ** 2
    return every(
        equal(squared_error(mdp, V_star), 0.0, 1e-12),
        at_most(growth, squared_error(mdp, point.V)),
        equal(hard, jump),
        at_most(1e6 * jnp.abs(soft).max(), jnp.abs(jump).max()),  # there is a jump to see, and none when smoothed
    )


def counterexample() -> Claim:
    """Two states, from V = 0 along (0, 1): the unsmoothed error has a kink where staying ties with switching."""
    mdp, direction = two_state(), jnp.array([0.0, 1.0])
    ties, _ = last_ties(mdp, jnp.zeros(2), direction)
    return equal(jax.vmap(lambda t: kink(lambda t: squared_error(mdp, t * direction), t))(ties), 0.0)


STATEMENT = Statement(
    name="squared_bellman_error",
    says="E[(T V - V)^2] vanishes at V* only, with kinks where best actions tie off the solution; with T_lam none",
    labels=("eq:mean_square_bellman_opt",),
    check=check,
    without="smoothing: with the hard maximum the one-sided derivatives differ",
    counterexample=counterexample,
)
