"""SAC's equations, each in one place: arrays in, arrays out.   q: [twins, B]; all others [B]"""

import jax.numpy as jnp

from sbeed.types import Array, Scalar


def soft_value(q: Array, log_pi: Array, *, lam: Scalar) -> Array:
    """min_i Q_i(s, a) - lam log pi(a|s),  a ~ pi(.|s):  one draw of V(s)

    The minimum is taken for each state, not over means.   [twins, B], [B] -> [B]
    """
    return q.min(0) - lam * log_pi


def Q_target(r: Array, v_next: Array, terminated: Array, *, gamma: Scalar) -> Array:
    """R(s, a) + gamma V(s'),  V the slow copies' soft value

    V(s') counts as 0 after `terminated`, and only then: a time limit still bootstraps.
    """
    return r + gamma * jnp.where(terminated, 0, v_next)


def Q_loss(q: Array, target: Array) -> Array:
    """sum_i E[(target - Q_i(s, a))^2]

    A sum over twins: each steps as if it were alone.
    """
    return jnp.sum(jnp.mean((target - q) ** 2, axis=-1))


def pi_loss(q: Array, log_pi: Array, *, lam: Scalar) -> Array:
    """-E[soft value]: its gradient flows through the action into the critics, and through log pi."""
    return -jnp.mean(soft_value(q, log_pi, lam=lam))


def log_lam_gradient(log_pi: Array, *, entropy_target: Scalar) -> Array:
    """E[-log pi] - entropy_target

    The gradient in log lam: lam falls while the entropy is above its target. The factor lam of the gradient of
    E[lam (-log pi - entropy_target)] is left out, as in the authors' code.
    """
    return jnp.mean(-log_pi) - entropy_target
