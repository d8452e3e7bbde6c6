"""Dual-AC's equations, each in one place: arrays in, arrays out.

The game is  max_{alpha, pi} min_V  mass E_mu[V(s)] + E_alpha,pi[delta] + eta_V E_mu[(R_path(s) - V(s))^2].

A round is one path with ends in it. mu is the distribution of its states, alpha = ratio mu. `v` is V at the states in
which the policy acted; `beyond` is what counts as V after a `last` step, where the data know no state that follows: a
constant of the game. A path of k + 1 steps that meets `last` stops there.   All arrays [..., N]; rows in time order.
"""

import jax
import jax.numpy as jnp

from sbeed.ops.prox import kl_simplex
from sbeed.ops.returns import Affine, compose_to_end, compose_windows
from sbeed.ops.weighted import mean
from sbeed.types import Array, Scalar


def value_beyond(v_next: Array, terminated: Array) -> Array:
    """V after a last step: 0 after a termination; at a time limit or the end of the data, V from before the round."""
    return jnp.where(terminated, 0, v_next)


def path_return(r: Array, beyond: Array, last: Array, *, gamma: Scalar) -> Array:
    """R_path(s_t) = sum_i gamma^i r_t+i, to the path's end and from there on `beyond`, for every t

    [the path regulariser's discounted return of the behaviour policy]
    """
    return compose_to_end(_steps(r, beyond, last, gamma)).c


def delta(r: Array, v: Array, beyond: Array, last: Array, *, gamma: Scalar, k: int) -> Array:
    """delta_t = sum_{i<=k} gamma^i r_t+i + gamma^(k+1) V(s_t+k+1) - V(s_t), for every t

    [the multi-step Bellman error of the Lagrangian]  Here delta is the error itself, not its target.
    """
    following = jnp.minimum(jnp.arange(r.shape[-1]) + k + 1, r.shape[-1] - 1)  # where there is none, nothing is left
    return compose_windows(_steps(r, beyond, last, gamma), k + 1)(v[..., following]) - v


def _steps(r: Array, beyond: Array, last: Array, gamma: Scalar) -> Affine:
    """Each step as the map from the value after it to the value before it; a last step holds its own."""
    last = last.at[..., -1].set(True)
    return Affine(r + gamma * jnp.where(last, beyond, 0), jnp.where(last, 0, gamma).astype(r.dtype))


def along(ratio: Array, last: Array, *, gamma: Scalar, k: int) -> Array:
    """gamma^i ratio_t-i for i = 0, ..., k + 1: alpha's mass that passes through row t, i steps after its start

    0 where an end lies between. Its last row is what arrives at the end of a path.   [N] -> [k + 2, N]
    """

    def step(mass: Array, _: None) -> tuple[Array, Array]:
        moved = jnp.roll(jnp.where(last, 0, gamma * mass), 1, axis=-1).at[..., 0].set(0)
        return moved, mass

    return jax.lax.scan(step, ratio, length=k + 2)[1]


# ------------------------------------------------------------------------------------------------- V


def V_goal(path: Array, ratio: Array, arriving: Array, weight: Array, *, eta_V: Scalar) -> Array:
    """R_path + (ratio - arriving - mass) / (2 eta_V): V's minimum is the regression on it, in any class of functions

    The Lagrangian is linear in V but for the regulariser: -E_mu[V (ratio - arriving - mass)], what alpha takes out of
    a state less what it and mu bring. The square completes. mass = E[ratio - arriving], so that adding a constant to V
    changes the regulariser alone: it is 1 - gamma^(k+1) where no path ends early.   [N] each -> [N]
    """
    out = ratio - arriving
    return path + (out - mean(out, weight)) / (2 * eta_V)


# ------------------------------------------------------------------------------------------------- alpha


def alpha_step(log_alpha: Array, delta: Array, *, step_size: Scalar) -> Array:
    """log of argmax_alpha step_size E_alpha[delta] - KL(alpha || alpha_old)  =  log alpha_old + step_size delta - log Z

    [the dual's proximal step, in KL: alpha stays positive and sums to one]  delta: E[delta | s_0], [N]
    """
    return kl_simplex(log_alpha, -step_size * delta)


def ratio_of(log_ratio: Array, weight: Array) -> Array:
    """exp(log_ratio), to mean one under weight, 0 where weight is.   [N], [N] -> [N]"""
    counted = weight > 0
    return jnp.where(counted, jax.nn.softmax(log_ratio, where=counted) / jnp.where(counted, weight, 1), 0)


# ------------------------------------------------------------------------------------------------- pi


def advantages(r: Array, v: Array, beyond: Array, last: Array, passing: Array, *, gamma: Scalar, k: int) -> Array:
    """A_t = sum_{i<=k} gamma^i ratio_t-i delta^(k-i)_t: the weight of grad log pi(a_t|s_t)

    [the policy's gradient E_alpha[sum_i grad log pi(a_i|s_i) delta]]  delta^(j) is delta of a path of j + 1 steps. What
    a path earned before an action, and V of the state that the action found, have no part in its gradient's mean: what
    is left of delta after them is gamma^i delta^(k-i).   passing: `along`, [k + 2, N] -> [N]
    """
    last = last.at[..., -1].set(True)
    error = delta(r, v, beyond, last, gamma=gamma, k=0)

    def longer(shorter: Array, _: None) -> tuple[Array, Array]:
        return error + jnp.where(last, 0, gamma * jnp.roll(shorter, -1, axis=-1)), shorter

    deltas = jax.lax.scan(longer, error, length=k + 1)[1]
    return jnp.sum(passing[k::-1] * deltas, axis=0)
