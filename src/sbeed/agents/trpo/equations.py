"""TRPO's equations, each in one place: arrays in, arrays out."""

import jax.numpy as jnp

from sbeed.ops.returns import Affine, compose_to_end
from sbeed.ops.weighted import mean
from sbeed.types import Array, Scalar


def advantages(
    r: Array, v: Array, v_next: Array, terminated: Array, last: Array, *, gamma: Scalar, gae_lambda: Scalar
) -> Array:
    """A_t = sum_i (gamma gae_lambda)^i (r_t+i + gamma V(s_t+i+1) - V(s_t+i)), for every t

    [Schulman et al. 2016, eq. 16]  The sum stops after `last` and where the data do, in both cases with V of the state
    really reached, v_next; `terminated` makes that V zero, a time limit does not. v_next[t] is not v[t+1] at `last`.
    All [..., L].
    """
    error = r + gamma * jnp.where(terminated, 0, v_next) - v
    return compose_to_end(Affine(error, jnp.where(last | terminated, 0, gamma * gae_lambda).astype(error.dtype))).c


def surrogate(log_pi: Array, log_pi_old: Array, advantage: Array, weight: Array) -> Array:
    """E[pi(a|s) / pi_old(a|s) A(s, a)] over data of pi_old

    [Schulman et al. 2015, eq. 14]  Its gradient at pi = pi_old is the policy gradient.   [N] each -> []
    """
    return mean(jnp.exp(log_pi - log_pi_old) * advantage, weight)
