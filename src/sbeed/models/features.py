"""Features of linear policies: drawn or given, never trained."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models.forward import on_rows
from sbeed.types import Array, Key


class Features(eqx.Module):
    """phi(x)."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of features, the constant included."""

    @abc.abstractmethod
    def __call__(self, x: Array) -> Array:
        """[..., n] -> [..., size]"""

    @abc.abstractmethod
    def layers(self, weights: Array) -> tuple[list[Array], list[Array]]:
        """The network of `forward.mlp` with sine activations that computes phi(x) weights.   weights: [size, out]"""


class FourierFeatures(Features):
    """phi_i(x) = sin(directions_i x / bandwidth + phases_i) and a constant 1: the paper's RBF random features.

    directions ~ N(0, 1), phases ~ U(-pi, pi): the mean of phi_i(x) phi_i(y) is exp(-|x - y|^2 / (2 bandwidth^2)) / 2,
    the RBF kernel. The bandwidth is 1 until it is set from data (`median_bandwidth`).
    """

    directions: Array  # [D, n]
    phases: Array  # [D]
    bandwidth: Array  # []

    def __init__(self, inputs: int, number: int, *, key: Key):
        k_directions, k_phases = jax.random.split(key)
        self.directions = jax.random.normal(k_directions, (number, inputs), jnp.float32)
        self.phases = jax.random.uniform(k_phases, (number,), jnp.float32, -math.pi, math.pi)
        self.bandwidth = jnp.float32(1)

    @property
    def size(self) -> int:
        return self.phases.shape[-1] + 1

    def __call__(self, x: Array) -> Array:
        directions, phases, bandwidth = jax.lax.stop_gradient((self.directions, self.phases, self.bandwidth))
        return on_rows(lambda rows: _with_constant(sine(rows @ directions.T / bandwidth + phases)), x)

    def layers(self, weights: Array) -> tuple[list[Array], list[Array]]:
        return [self.directions.T / self.bandwidth, weights[:-1]], [self.phases, weights[-1]]


class Identity(Features):
    """phi(x) = (x, 1), or x alone: linear-quadratic problems, and one-hot states, where a weight is a table's entry."""

    inputs: int = eqx.field(static=True)
    constant: bool = eqx.field(static=True, default=True)

    @property
    def size(self) -> int:
        return self.inputs + self.constant

    def __call__(self, x: Array) -> Array:
        return _with_constant(x) if self.constant else x

    def layers(self, weights: Array) -> tuple[list[Array], list[Array]]:
        if self.constant:
            return [weights[:-1]], [weights[-1]]
        return [weights], [jnp.zeros_like(weights[0])]


def _with_constant(x: Array) -> Array:
    return jnp.concatenate([x, jnp.ones_like(x[..., :1])], axis=-1)


def sine(x: Array) -> Array:
    """sin x to 2e-7 for |x| < 1000, by a polynomial after x - n pi.

    On a CPU XLA's own sine takes five to nine times as long, and dominates the time of a policy of 500 features.
    """
    n = jnp.round(x * (1 / math.pi))
    # pi in two parts, the first with few binary digits: n times it is exact.
    y = x - n * 3.140625 - n * (math.pi - 3.140625)
    z = y * y
    tail = -1 / 6 + z * (1 / 120 + z * (-1 / 5040 + z * (1 / 362880 - z / 39916800)))  # Taylor's, on [-pi/2, pi/2]
    half_wave = y + y * z * tail
    return jnp.where(n.astype(jnp.int32) & 1 == 1, -half_wave, half_wave)


def median_bandwidth(x: Array, most: int = 1000) -> Array:
    """The median distance between two points among at most `most` evenly spaced rows; 1 if most points coincide.

    Measure it on what the features will see: normalised observations, if they are normalised.   x: [N, n] -> []
    """
    number = min(most, x.shape[0])
    # Evenly spaced, because neighbours in a replay are neighbours in time.
    x = x[jnp.arange(number) * x.shape[0] // number]
    x = x - x.mean(0)  # before squaring: distances are differences of squares below
    squares = jnp.sum(x * x, axis=-1)
    products = jnp.matmul(x, x.T, precision="highest")
    first, second = jnp.triu_indices(number, k=1)  # each pair once, and no point with itself
    squared = (squares[:, None] + squares[None, :] - 2 * products)[first, second]
    median = jnp.sqrt(jnp.maximum(jnp.median(squared), 0))
    return jax.lax.stop_gradient(jnp.where(median > 0, median, 1))
