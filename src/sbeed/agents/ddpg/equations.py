"""DDPG's equations, each in one place: arrays in, arrays out.   All [B]"""

import jax.numpy as jnp

from sbeed.types import Array, Scalar


def Q_target(r: Array, q_next: Array, terminated: Array, *, gamma: Scalar) -> Array:
    """R(s, a) + gamma Q(s', pi(s')),  both slow copies

    Q(s', .) counts as 0 after `terminated`, and only then: a time limit still bootstraps.
    """
    return r + gamma * jnp.where(terminated, 0, q_next)


def Q_loss(q: Array, target: Array) -> Array:
    """E[(target - Q(s, a))^2]"""
    return jnp.mean((target - q) ** 2)


def pi_loss(q: Array) -> Array:
    """-E[Q(s, pi(s))]: its gradient in pi is the deterministic policy gradient -E[dpi/dtheta dQ/da at a = pi(s)]."""
    return -jnp.mean(q)
