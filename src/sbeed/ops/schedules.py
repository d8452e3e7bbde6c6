"""Step sizes as functions of the iteration j = 1, 2, ..."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from sbeed.types import Array, Scalar

Schedule = Callable[[Scalar], Array]


def constant(step_size: Scalar) -> Schedule:
    """zeta_j = step_size"""
    return lambda j: jnp.full(jnp.shape(j), step_size)


def inverse(step_size: Scalar, delay: Scalar = 1.0) -> Schedule:
    """zeta_j = step_size * delay / (delay + j - 1), which is O(1/j).   [paper: alg:sbeed, line 8]

    delay: iterations until the step has halved; 1 gives step_size / j.
    """
    return lambda j: step_size * delay / (delay + jnp.asarray(j) - 1)


def random_iterate(smoothness: Scalar, noise: Scalar, distance: Scalar, iterations: Scalar) -> Schedule:
    """zeta_j = min{1/K, D' / (sigma sqrt N)}, the constant that balances descent against noise.

    [paper: thm:convergence_opt]  K: Lipschitz constant of the *gradient* (erratum E8); sigma^2 bounds its variance.
    """
    noise_floor = distance / jnp.maximum(noise * jnp.sqrt(iterations), jnp.finfo(float).tiny)
    return constant(jnp.minimum(1 / smoothness, noise_floor))


class TwoTimeScales(NamedTuple):
    """Step sizes of the slow player (V, pi) and of the fast one (rho)."""

    primal: Schedule
    dual: Schedule


def two_time_scales(
    primal: Scalar, dual: Scalar, *, primal_power: float = 0.9, dual_power: float = 0.6, delay: Scalar = 1.0
) -> TwoTimeScales:
    """zeta_j ~ j^-primal_power, xi_j ~ j^-dual_power.   [paper: alg:sbeed_dual_nn]

    Needs 1/2 < dual_power < primal_power <= 1: sums diverge, squares converge, and zeta_j / xi_j -> 0, so that the dual
    sees a primal that hardly moves. delay: iterations before the decay sets in.
    """
    if not 0.5 < dual_power < primal_power <= 1:
        raise ValueError(f"powers must satisfy 1/2 < dual < primal <= 1, got dual {dual_power}, primal {primal_power}")

    def decay(step_size: Scalar, power: float) -> Schedule:
        return lambda j: step_size * (delay / (delay + jnp.asarray(j) - 1)) ** power

    return TwoTimeScales(decay(primal, primal_power), decay(dual, dual_power))
