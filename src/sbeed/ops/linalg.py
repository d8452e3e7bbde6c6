"""Solving symmetric positive systems: exactly where they are small, by products where they are not."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.types import Array, Scalar


def ridge_solve(gram: Array, rhs: Array, ridge: Scalar) -> Array:
    """(gram + ridge * mean(diag) I)^-1 rhs by Cholesky; relative to the diagonal, so that `ridge` has no unit.

    gram: [D, D] symmetric, rhs: [D] or [D, M]
    """
    size = gram.shape[0]
    damped = gram + ridge * jnp.trace(gram) / size * jnp.eye(size, dtype=gram.dtype)
    return jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(damped), rhs)


class Solution(NamedTuple):
    """x with A x ~ b, and ||A x - b|| / ||b|| as computed afresh, not as the recursion believes it."""

    x: Array
    relative_residual: Array


def conjugate_gradient(
    product: Callable[[Array], Array], b: Array, *, iterations: int, damping: Scalar = 0.0
) -> Solution:
    """Solve (A + damping I) x = b from products with A alone; each iterate lowers <x, A x> / 2 - <b, x>.

    Guarded: a direction of no curvature or a non-finite value ends the search where it is. The residual in the answer
    is recomputed, because float32 recursions drift: read it before you trust x.   b, x: [D]
    """

    def damped(x: Array) -> Array:
        return product(x) + damping * x

    # Beyond rounding, directions are noise: along one that A does not see the search would walk off.
    rounding = (10 * jnp.finfo(b.dtype).eps) ** 2 * (b @ b)

    def step(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        x, residual, direction = state
        image = damped(direction)
        squared, curvature = residual @ residual, direction @ image
        usable = (curvature > 0) & (squared > rounding) & jnp.isfinite(curvature)
        length = squared / jnp.where(usable, curvature, jnp.inf)
        new_residual = residual - length * image
        new_direction = new_residual + (new_residual @ new_residual) / jnp.where(usable, squared, 1) * direction
        new = (x + length * direction, new_residual, new_direction)
        return tuple(jnp.where(usable, after, before) for after, before in zip(new, state)), None  # type: ignore[return-value]

    (x, _, _), _ = jax.lax.scan(step, (jnp.zeros_like(b), b, b), length=iterations)
    norm_b = jnp.linalg.norm(b)
    return Solution(x, jnp.linalg.norm(damped(x) - b) / jnp.where(norm_b > 0, norm_b, 1))
