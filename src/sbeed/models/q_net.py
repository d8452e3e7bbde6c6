"""Action values for gradients that flow through V(s'): networks whose hidden layers may be normalised.

A layer norm of the last hidden layer bounds the features that Q is linear in: no slow copy is then needed. Statistics
of a batch are taken over s and s' together, in one pass, as CrossQ does.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models import forward
from sbeed.models.nets import MLP, product
from sbeed.types import Array, EnvSpec, Key

STATISTICS_RATE = 0.01  # of the running statistics of a batch norm


class Statistics(NamedTuple):
    """Mean and variance of what enters each batch-normalised layer: lists of [width]."""

    means: list[Array]
    variances: list[Array]


def norms_of_layers(norm: str, hidden: int) -> tuple[str, ...]:
    """The norm of each hidden layer: "last" is a layer norm of the last one, the others are the same everywhere."""
    if norm == "last":
        return ("none",) * (hidden - 1) + ("layer",) * min(hidden, 1)
    return (norm,) * hidden


class QNet(eqx.Module):
    """x -> W_n relu(norm(... relu(norm(W_1 x + b_1)) ...)) + b_n, each norm with a learned gain and shift."""

    net: MLP
    gains: list[Array | None]  # None where a layer has no norm
    shifts: list[Array | None]
    running: Statistics  # data, never trained: a batch norm uses them outside of a joint pass
    passes: Array  # joint passes that the running statistics have taken in
    norms: tuple[str, ...] = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], *, norm: str, key: Key):
        self.net = MLP(sizes, key=key)
        widths = sizes[1:-1]
        self.norms = norms_of_layers(norm, len(widths))
        made = lambda make: [make(w, jnp.float32) if n != "none" else None for n, w in zip(self.norms, widths)]
        self.gains, self.shifts = made(jnp.ones), made(jnp.zeros)
        widths = widths if norm == "batch" else ()
        zeros = [jnp.zeros(width, jnp.float32) for width in widths]
        self.running = Statistics(zeros, [jnp.ones(width, jnp.float32) for width in widths])
        self.passes = jnp.zeros((), jnp.float32)

    def __call__(self, x: Array) -> Array:
        """Evaluate with the running statistics, if any: the output depends on x alone.   [..., in] -> [..., out]"""
        return forward.on_rows(lambda rows: self.with_features(rows)[0], x)

    def with_features(self, x: Array) -> tuple[Array, Array]:
        """The output and the last hidden layer.   [N, in] -> [N, out], [N, width]"""
        hidden = self._hidden(x, self._by_running)
        return self._output(hidden), hidden

    def joint(self, now: Array, after: Array) -> tuple[Array, Array, Array, Statistics]:
        """Evaluate rows of (s, a) and of (s', a') in one pass, with the statistics of both together.

        [N, in], [M, in] -> outputs of both [N, out] and [M, out], the last hidden layer of the first [N, width], and
        the statistics met.
        """
        n, met = len(now), Statistics([], [])

        def by_batch(z: Array, i: int) -> Array:
            mean, var = jnp.mean(z, 0), jnp.var(z, 0)
            met.means.append(jax.lax.stop_gradient(mean))
            met.variances.append(jax.lax.stop_gradient(var))
            return forward.batch_norm(z, mean, var, self.gains[i], self.shifts[i], jnp)

        hidden = self._hidden(jnp.concatenate([now, after]), by_batch)
        out = self._output(hidden)
        return out[:n], out[n:], hidden[:n], met

    def _by_running(self, z: Array, i: int) -> Array:
        statistics = (self.running.means[i], self.running.variances[i])
        return forward.batch_norm(z, *jax.lax.stop_gradient(statistics), self.gains[i], self.shifts[i], jnp)

    def _hidden(self, x: Array, by_statistics: Callable[[Array, int], Array]) -> Array:
        """The last hidden layer.   [N, in] -> [N, width]"""
        for i, (W, b, norm) in enumerate(zip(self.net.weights, self.net.biases, self.norms)):
            z = product(x, W) + b
            if norm == "batch":
                z = by_statistics(z, i)
            elif norm != "none":
                z = forward.row_norm(z, norm, self.gains[i], self.shifts[i], jnp)
            x = jnp.maximum(z, 0)
        return x

    def _output(self, hidden: Array) -> Array:
        return hidden @ self.net.weights[-1] + self.net.biases[-1]

    def taking_in(self, met: Statistics) -> "QNet":
        """Update the running statistics by `met`."""
        if not met.means:
            return self
        rate = jnp.maximum(STATISTICS_RATE, 1 / (self.passes + 1))
        running = jax.tree.map(lambda old, new: old + rate * (new - old), self.running, met)
        return eqx.tree_at(lambda q: (q.running, q.passes), self, (running, self.passes + 1))


class ActionValues(eqx.Module):
    """`twins` networks, stacked: every array of `net` has a leading axis. Actions are inputs in a box, else outputs."""

    net: QNet
    discrete: bool = eqx.field(static=True)

    def __init__(self, spec: EnvSpec, *, hidden: tuple[int, ...], norm: str, twins: int, key: Key):
        self.discrete = spec.action_kind == "discrete"
        inputs = spec.observation_size + (0 if self.discrete else spec.action_size)
        sizes = (inputs, *hidden, spec.action_size if self.discrete else 1)
        self.net = jax.vmap(lambda k: QNet(sizes, norm=norm, key=k))(jax.random.split(key, twins))

    def inputs(self, obs: Array, action: Array | None) -> Array:
        """action: as the environment gets it; None where actions are outputs."""
        return obs if action is None else jnp.concatenate([obs, action], axis=-1)

    def __call__(self, obs: Array, action: Array | None = None) -> Array:
        """[..., n], [..., A] -> [twins, ...] in a box; [..., n] -> [twins, ..., A] if actions are discrete"""
        x = self.inputs(obs, action)
        values = jax.vmap(lambda net: net(x))(self.net)
        return values if self.discrete else values[..., 0]

    @property
    def joins_batches(self) -> bool:
        """True if Q of a row depends on the other rows of its batch."""
        return "batch" in self.net.norms

    def with_features(self, x: Array) -> tuple[Array, Array]:
        """Outputs and last hidden layers.   [N, in] -> [twins, N, out], [twins, N, width]"""
        return jax.vmap(QNet.with_features, (0, None))(self.net, x)

    def joint(self, now: Array, after: Array) -> tuple[Array, Array, Array, Statistics]:
        """The joint pass of both networks; every result has a leading axis of twins."""
        return jax.vmap(QNet.joint, (0, None, None))(self.net, now, after)

    def map(self, f: Callable[..., QNet], *args: Any) -> "ActionValues":
        """Apply f to each network."""
        return eqx.tree_at(lambda q: q.net, self, jax.vmap(f)(self.net, *args))
