"""Solving symmetric positive systems: exactly where they are small, by products where they are not."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

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


_SearchState: TypeAlias = tuple[Array, Array, Array, Array, Array]  # x, residual, direction, best x, its residual^2


class Solution(NamedTuple):
    """x with A x ~ b, and ||A x - b|| / ||b|| as computed afresh, not as the recursion believes it."""

    x: Array
    relative_residual: Array


def conjugate_gradient(
    product: Callable[[Array], Array], b: Array, *, iterations: int, damping: Scalar = 0.0
) -> Solution:
    """Solve (A + damping I) x = b from products with A alone; returns the iterate with the smallest residual.

    Guarded: directions of no curvature and non-finite values end the search instead of poisoning it. The residual in
    the answer is recomputed, because float32 recursions drift: read it before you trust x.   b, x: [D]
    """

    def damped(x: Array) -> Array:
        return product(x) + damping * x

    def step(state: _SearchState, _: None) -> tuple[_SearchState, None]:
        x, residual, direction, best_x, best_norm = state
        image = damped(direction)
        squared = residual @ residual
        curvature = direction @ image
        usable = (curvature > 0) & (squared > 0) & jnp.isfinite(curvature)
        length = jnp.where(usable, squared / jnp.where(usable, curvature, 1), 0)
        x = x + length * direction
        residual = jnp.where(usable, residual - length * image, residual)
        norm = residual @ residual
        better = jnp.isfinite(norm) & (norm < best_norm)
        best_x = jnp.where(better, x, best_x)
        best_norm = jnp.where(better, norm, best_norm)
        direction = jnp.where(usable, residual + norm / jnp.where(usable, squared, 1) * direction, direction)
        return (x, residual, direction, best_x, best_norm), None

    zero = jnp.zeros_like(b)
    (_, _, _, x, _), _ = jax.lax.scan(step, (zero, b, b, zero, b @ b), length=iterations)
    norm_b = jnp.linalg.norm(b)
    return Solution(x, jnp.linalg.norm(damped(x) - b) / jnp.where(norm_b > 0, norm_b, 1))
