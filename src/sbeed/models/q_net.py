"""Action values for gradients that flow through V(s'): networks whose hidden layers are normalised.

Normalisation by the statistics of a batch takes them over s and s' together, in one pass, as CrossQ does: then no slow
copy is needed to keep both on one scale.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models import forward
from sbeed.models.nets import MLP, product
from sbeed.types import Array, EnvSpec, Key, Scalar

STATISTICS_RATE = 0.01  # of the running statistics of a batch norm
MOST_SCALE, MOST_SHIFT = 3.0, 5.0  # how far batch renormalisation corrects: Ioffe's own, CrossQ's too


class Statistics(NamedTuple):
    """Mean and variance of what enters each normalised layer: lists of [width]."""

    means: list[Array]
    variances: list[Array]


class QNet(eqx.Module):
    """x -> W_n relu(norm(... relu(norm(W_1 x + b_1)) ...)) + b_n, each norm with a learned gain and shift."""

    net: MLP
    gains: list[Array]
    shifts: list[Array]
    running: Statistics  # data, never trained: a batch norm uses them outside of a joint pass
    seen: Array  # joint passes that the running statistics have taken in
    norm: str = eqx.field(static=True)

    def __init__(self, sizes: tuple[int, ...], *, norm: str, key: Key):
        self.net = MLP(sizes, key=key)
        widths = sizes[1:-1] if norm != "none" else ()
        self.gains = [jnp.ones(width, jnp.float32) for width in widths]
        self.shifts = [jnp.zeros(width, jnp.float32) for width in widths]
        widths = widths if norm in forward.BATCH_NORMS else ()
        zeros = [jnp.zeros(width, jnp.float32) for width in widths]
        self.running = Statistics(zeros, [jnp.ones(width, jnp.float32) for width in widths])
        self.seen, self.norm = jnp.zeros((), jnp.float32), norm

    def __call__(self, x: Array) -> Array:
        """By the running statistics, if any: a function of x alone.   [..., in] -> [..., out]"""
        return forward.on_rows(lambda rows: self._output(self._hidden(rows, self._by_running)), x)

    def joint(self, now: Array, after: Array, *, hold: bool) -> tuple[Array, Array, Array, Statistics]:
        """One pass over rows of (s, a) and of (s', a').

        hold: gradients reach the statistics of a batch from the rows of `now` alone.
        [N, in], [M, in] -> outputs of both [N, out] and [M, out], the last hidden layer of the first [N, width], and
        the statistics met.
        """
        n, met = len(now), Statistics([], [])

        def by_batch(z: Array, i: int) -> Array:
            mean, var = jnp.mean(z, 0), jnp.var(z, 0)
            met.means.append(jax.lax.stop_gradient(mean))
            met.variances.append(jax.lax.stop_gradient(var))
            scale, shift = self._renormalised(mean, var, i)
            standard = lambda z, mean, var: (z - mean) * jax.lax.rsqrt(var + forward.EPSILON) * scale + shift
            held = jax.lax.stop_gradient((mean, var)) if hold else (mean, var)
            z = jnp.concatenate([standard(z[:n], mean, var), standard(z[n:], *held)])
            return z * self.gains[i] + self.shifts[i]

        hidden = self._hidden(jnp.concatenate([now, after]), by_batch)
        out = self._output(hidden)
        return out[:n], out[n:], hidden[:n], met

    def _renormalised(self, mean: Array, var: Array, i: int) -> tuple[Scalar, Scalar]:
        """Batch renormalisation's correction: it makes values, not gradients, those of the running statistics."""
        if self.norm != "renorm":
            return 1.0, 0.0
        inverse = jax.lax.rsqrt(self.running.variances[i] + forward.EPSILON)
        scale = jnp.clip(jnp.sqrt(var + forward.EPSILON) * inverse, 1 / MOST_SCALE, MOST_SCALE)
        shift = jnp.clip((mean - self.running.means[i]) * inverse, -MOST_SHIFT, MOST_SHIFT)
        known = self.seen > 0
        return jax.lax.stop_gradient((jnp.where(known, scale, 1.0), jnp.where(known, shift, 0.0)))

    def _by_running(self, z: Array, i: int) -> Array:
        statistics = (self.running.means[i], self.running.variances[i])
        return forward.batch_norm(z, *jax.lax.stop_gradient(statistics), self.gains[i], self.shifts[i], jnp)

    def _hidden(self, x: Array, by_statistics: Callable[[Array, int], Array]) -> Array:
        """The last hidden layer.   [N, in] -> [N, width]"""
        for i, (W, b) in enumerate(zip(self.net.weights[:-1], self.net.biases[:-1])):
            z = product(x, W) + b
            if self.norm in forward.BATCH_NORMS:
                z = by_statistics(z, i)
            elif self.norm != "none":
                z = forward.row_norm(z, self.norm, self.gains[i], self.shifts[i], jnp)
            x = jnp.maximum(z, 0)
        return x

    def _output(self, hidden: Array) -> Array:
        return hidden @ self.net.weights[-1] + self.net.biases[-1]

    def taking_in(self, met: Statistics) -> "QNet":
        """The network with these statistics in its running ones."""
        if not met.means:
            return self
        rate = jnp.maximum(STATISTICS_RATE, 1 / (self.seen + 1))
        running = jax.tree.map(lambda old, new: old + rate * (new - old), self.running, met)
        return eqx.tree_at(lambda q: (q.running, q.seen), self, (running, self.seen + 1))

    def with_unit_weights(self) -> "QNet":
        """Every column of the hidden weights at norm 1: behind a normalised layer its length is of no consequence."""
        unit = [W / jnp.linalg.norm(W, axis=0, keepdims=True) for W in self.net.weights[:-1]]
        return eqx.tree_at(lambda q: q.net.weights[:-1], self, unit)


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

    def joint(self, now: Array, after: Array, *, hold: bool) -> tuple[Array, Array, Array, Statistics]:
        """Both networks' joint pass: every result has a leading axis of twins."""
        return jax.vmap(partial(QNet.joint, hold=hold), (0, None, None))(self.net, now, after)

    def map(self, f: Callable[..., QNet], *args: Any) -> "ActionValues":
        """f on each network."""
        return eqx.tree_at(lambda q: q.net, self, jax.vmap(f)(self.net, *args))
