"""Fully connected networks."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models import forward
from sbeed.types import Array, Key

TALL = 1024  # rows from which on x^T g is worth a copy of x on a CPU


@jax.custom_vjp
def product(x: Array, W: Array) -> Array:
    """x W; on a CPU its gradient x^T g uses a transposed copy of x, three times as fast as XLA's own."""
    return x @ W


def _weight_gradient(x: Array, g: Array) -> Array:
    if len(x) < TALL:
        return x.T @ g
    on_cpu = lambda x, g: jax.lax.optimization_barrier(x.T) @ g
    return jax.lax.platform_dependent(x, g, cpu=on_cpu, default=lambda x, g: x.T @ g)


def _gradients(seen: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """The gradients, each in the precision of its primal, where those two differ."""
    x, W = seen
    return (g @ W.T).astype(x.dtype), _weight_gradient(x, g).astype(W.dtype)


product.defvjp(lambda x, W: (x @ W, (x, W)), _gradients)


def _uniform(sizes: Sequence[int], last_scale: float, key: Key) -> tuple[list[Array], list[Array]]:
    """Draw all layers at once: compiling a generator for each of them takes seconds."""
    layers = list(pairwise(sizes))
    rows = jax.random.uniform(key, (sum((fan_in + 1) * out for fan_in, out in layers),), jnp.float32, -1, 1)
    weights, biases = [], []
    for i, (fan_in, out) in enumerate(layers):
        scale = fan_in**-0.5 * (last_scale if i == len(layers) - 1 else 1.0)
        layer, rows = rows[: (fan_in + 1) * out].reshape(fan_in + 1, out) * scale, rows[(fan_in + 1) * out :]
        weights.append(layer[:-1])
        biases.append(layer[-1])
    return weights, biases


def _orthogonal(sizes: Sequence[int], last_scale: float, key: Key) -> tuple[list[Array], list[Array]]:
    weights = []
    for i, (fan_in, out) in enumerate(layers := list(pairwise(sizes))):
        draw = jax.nn.initializers.orthogonal(last_scale if i == len(layers) - 1 else 2**0.5)
        weights.append(draw(jax.random.fold_in(key, i), (fan_in, out), jnp.float32))
    return weights, [jnp.zeros(out, jnp.float32) for out in sizes[1:]]


class MLP(eqx.Module):
    """x -> W_n act(... act(W_1 x + b_1) ...) + b_n, with LayerNorm before each activation if asked for."""

    weights: list[Array]
    biases: list[Array]
    activation: str = eqx.field(static=True)
    layer_norm: bool = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        key: Key,
        activation: str = "relu",
        layer_norm: bool = False,
        last_scale: float = 1.0,
        orthogonal: bool = False,
    ):
        """sizes: input, hidden..., output. last_scale: factor on the output layer; 0 starts from the zero function.

        Weights begin uniform, with a gain of .6, or orthogonal, with one of sqrt 2 in hidden layers and no biases.
        """
        self.weights, self.biases = (_orthogonal if orthogonal else _uniform)(sizes, last_scale, key)
        self.activation = activation
        self.layer_norm = layer_norm

    def hidden(self, x: Array) -> Array:
        """The last hidden layer: features that the output is linear in.   [..., in] -> [..., width]"""
        act = partial(forward.hidden, activation=self.activation, layer_norm=self.layer_norm, xp=jnp, product=product)
        return forward.on_rows(lambda rows: act(self.weights[:-1], self.biases[:-1], rows), x)

    def __call__(self, x: Array) -> Array:
        """[..., in] -> [..., out]"""
        act = partial(forward.mlp, activation=self.activation, layer_norm=self.layer_norm, xp=jnp, product=product)
        return forward.on_rows(lambda rows: act(self.weights, self.biases, rows), x)
