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
    """x W, whose gradient x^T g in W a CPU takes of a transposed copy of x: XLA's own is three times as slow."""
    return x @ W


def _weight_gradient(x: Array, g: Array) -> Array:
    if len(x) < TALL:
        return x.T @ g
    on_cpu = lambda x, g: jax.lax.optimization_barrier(x.T) @ g
    return jax.lax.platform_dependent(x, g, cpu=on_cpu, default=lambda x, g: x.T @ g)


def _gradients(seen: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    """Each as exact as what it is the gradient of, where those two differ."""
    x, W = seen
    return (g @ W.T).astype(x.dtype), _weight_gradient(x, g).astype(W.dtype)


product.defvjp(lambda x, W: (x @ W, (x, W)), _gradients)


def _uniform(fan_in: int, fan_out: int, scale: float, key: Key) -> tuple[Array, Array]:
    k_w, k_b = jax.random.split(key)
    bound = fan_in**-0.5 * scale
    W = jax.random.uniform(k_w, (fan_in, fan_out), jnp.float32, -bound, bound)
    return W, jax.random.uniform(k_b, (fan_out,), jnp.float32, -bound, bound)


def _orthogonal(fan_in: int, fan_out: int, scale: float, key: Key) -> tuple[Array, Array]:
    W = jax.nn.initializers.orthogonal(scale)(key, (fan_in, fan_out), jnp.float32)
    return W, jnp.zeros(fan_out, jnp.float32)


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
        self.weights, self.biases = [], []
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            draw, hidden_scale = (_orthogonal, 2**0.5) if orthogonal else (_uniform, 1.0)
            scale = last_scale if i == len(sizes) - 2 else hidden_scale
            W, b = draw(fan_in, fan_out, scale, jax.random.fold_in(key, i))
            self.weights.append(W)
            self.biases.append(b)
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
