"""Fully connected networks that also run on the host.

Every forward pass takes `xp`: jax.numpy inside a program, numpy to act for one observation without a dispatch.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.types import AnyArray, Array, Key

Numpy = Any  # the module numpy or jax.numpy

ACTIVATIONS: dict[str, Callable[[AnyArray, Numpy], AnyArray]] = {
    "relu": lambda x, xp: xp.maximum(x, 0),
    "tanh": lambda x, xp: xp.tanh(x),
}


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
    ):
        """sizes: input, hidden..., output. last_scale: factor on the output layer; 0 starts from the zero function."""
        self.weights, self.biases = [], []
        for i, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            k_w, k_b = jax.random.split(jax.random.fold_in(key, i))
            bound = fan_in**-0.5 * (last_scale if i == len(sizes) - 2 else 1.0)
            self.weights.append(jax.random.uniform(k_w, (fan_in, fan_out), jnp.float32, -bound, bound))
            self.biases.append(jax.random.uniform(k_b, (fan_out,), jnp.float32, -bound, bound))
        self.activation = activation
        self.layer_norm = layer_norm

    def hidden(self, x: AnyArray, xp: Numpy = jnp) -> AnyArray:
        """The last hidden layer: features that are linear in the output.   [..., in] -> [..., width]"""
        act = ACTIVATIONS[self.activation]
        for W, b in zip(self.weights[:-1], self.biases[:-1]):
            x = x @ W + b
            if self.layer_norm:
                x = x - x.mean(-1, keepdims=True)
                x = x / xp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
            x = act(x, xp)
        return x

    def __call__(self, x: AnyArray, xp: Numpy = jnp) -> AnyArray:
        """[..., in] -> [..., out]"""
        return self.hidden(x, xp) @ self.weights[-1] + self.biases[-1]
