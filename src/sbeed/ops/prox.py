"""The prox-mapping P_z(g) = argmin_w <w, g> + D(w, z), for each distance D that the paper and its learner use.

Euclidean and on the simplex the mapping is exact: pass the step size times the gradient, get the new point. For
policies with parameters KL is quadratic to second order, its matrix the Fisher information F: the natural gradients
return the *direction* F^-1 g, and the step z - size * direction is chosen afterwards (`capped_step_size`,
`kl_line_search`).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.ops.linalg import Solution, conjugate_gradient, ridge_solve
from sbeed.types import Array, Scalar


def euclidean(z: Array, g: Array) -> Array:
    """argmin_w <w, g> + |w - z|^2 / 2  =  z - g"""
    return z - g


def kl_simplex(log_z: Array, g: Array) -> Array:
    """log of argmin_p <p, g> + KL(p || z)  =  log z - g - log sum exp(log z - g)

    Exact multiplicative weights on the probabilities themselves: g is the gradient in p, not in logits.   [..., A]
    """
    return jax.nn.log_softmax(log_z - g, axis=-1)


class GaussianStep(NamedTuple):
    """A direction for a Gaussian policy a ~ N(W phi(s), diag exp(2 log_std))."""

    weights: Array  # [actions, D]
    log_std: Array  # [actions]


def gaussian_natural_gradient(gram: Array, log_std: Array, g: GaussianStep, *, ridge: Scalar = 0.0) -> GaussianStep:
    """F^-1 g for a Gaussian whose mean is linear in its weights: F_W = Sigma^-1 (x) E[phi phi^T], F_log_std = 2.

    One Cholesky of D x D for all action dimensions; with log_std held, KL is exactly quadratic in W, so z - F^-1 g *is*
    the prox.   gram = E[phi phi^T]: [D, D]
    """
    variance = jnp.exp(2 * log_std)
    return GaussianStep(ridge_solve(gram, g.weights.T, ridge).T * variance[:, None], g.log_std / 2)


def natural_gradient_by_products(
    kl: Callable[[Array], Array],
    z: Array,
    g: Array,
    *,
    iterations: int = 20,
    damping: Scalar = 0.0,
    tolerance: Scalar = 0.5,
) -> Solution:
    """F^-1 g for any policy, F = Hessian at z of w -> KL(pi_z || pi_w), by conjugate gradient on products with F.

    kl(w): mean KL(pi_z || pi_w) over states, a scalar. Guarded: where the relative residual stays above `tolerance`,
    the answer is the best multiple of g itself, which always descends; `relative_residual` says so.   z, g: [D]
    """

    def product(x: Array) -> Array:
        return jax.jvp(jax.grad(kl), (z,), (x,))[1]

    found = conjugate_gradient(product, g, iterations=iterations, damping=damping)
    # The first iterate minimises <x, F x> / 2 - <g, x> along g.
    along_g = conjugate_gradient(product, g, iterations=1, damping=damping)
    converged = found.relative_residual <= tolerance
    return Solution(*(jnp.where(converged, x, y) for x, y in zip(found, along_g)))


def capped_step_size(g: Array, direction: Array, *, step_size: Scalar, kl_radius: Scalar) -> Array:
    """min(step_size, sqrt(2 kl_radius / g^T F^-1 g)), with direction = F^-1 g

    The cap keeps early steps inside the trust region; the plain step size lets the iteration converge, which a
    normalised step alone never does.   step_size = inf: always normalised.
    """
    squared = jnp.vdot(g, direction)
    cap = jnp.sqrt(2 * kl_radius / jnp.where(squared > 0, squared, jnp.inf))
    return jnp.where(squared > 0, jnp.minimum(step_size, cap), 0)


def kl_line_search(
    kl: Callable[[Array], Array],
    objective: Callable[[Array], Array],
    z: Array,
    step: Array,
    *,
    kl_radius: Scalar,
    shrink: float = 0.5,
    tries: int = 10,
) -> Array:
    """The longest z - shrink^i step that stays within kl_radius and does not raise the objective; z if none does."""

    def attempt(found: Array, i: Array) -> tuple[Array, None]:
        w = z - shrink**i * step
        good = (kl(w) <= kl_radius) & (objective(w) <= start)
        already = jnp.any(found != z)
        return jnp.where(~already & good, w, found), None

    start = objective(z)
    found, _ = jax.lax.scan(attempt, z, jnp.arange(tries, dtype=z.dtype))
    return found
