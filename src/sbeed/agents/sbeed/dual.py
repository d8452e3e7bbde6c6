"""The dual player: rho(s, a) = V(s) + nu(s, a), of which nu is learned, by regression on delta - V.

nu fits what is left of E[delta | s, a] once the known part is taken off, so rho follows V at once.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.models.features import FourierFeatures, median_bandwidth
from sbeed.models.forward import on_rows
from sbeed.models.nets import MLP
from sbeed.ops.linalg import ridge_solve
from sbeed.types import Array, EnvSpec, Key, Scalar

RIDGE = 1e-4  # of the mean diagonal, at the least: random features at the median distance are nearly dependent


class Linear(eqx.Module):
    """nu = weights^T phi(x), with random features that stay as they were drawn."""

    features: FourierFeatures  # the last one is the constant
    weights: Array  # [D, out]

    def __call__(self, x: Array) -> Array:
        return on_rows(lambda rows: self.features(rows) @ self.weights, x)


class Dual(eqx.Module):
    """nu(s, a): discrete actions are outputs, those of a box inputs, as are the later actions where rho sees them."""

    net: MLP | Linear
    discrete: bool = eqx.field(static=True)

    def __call__(self, obs: Array, action: Array, later: Array | None = None) -> Array:
        """nu of these actions, as the environment gets them.   [..., n], [..., A] or integers -> [...]"""
        outputs = self.net(self.inputs(obs, action, later))
        if self.discrete:
            return jnp.take_along_axis(outputs, action.astype(int)[..., None], axis=-1)[..., 0]
        return outputs[..., 0]

    def inputs(self, obs: Array, action: Array, later: Array | None) -> Array:
        """Inputs of the network."""
        parts = [obs] if self.discrete else [obs, action]
        return jnp.concatenate(parts if later is None else [*parts, later], axis=-1)


def init(config: SBEEDConfig, spec: EnvSpec, key: Key) -> Dual:
    discrete = spec.action_kind == "discrete"
    seen = config.k if config.dual_sees == "all" else 1
    later = (seen - 1) * spec.action_size
    size = spec.observation_size + later + (0 if discrete else spec.action_size)
    outputs = spec.action_size if discrete else 1

    (key,) = jax.random.split(key, 1)  # the draw of the runs in results/, when there could be two duals
    # nu starts as the zero function: before the dual has seen data, rho = V and L_eta is (1 - eta) PCL.
    if config.dual == "linear" and config.dual_features == "rbf":
        features = FourierFeatures(size, config.features, key=key)
        return Dual(Linear(features, jnp.zeros((config.features + 1, outputs), jnp.float32)), discrete)
    return Dual(MLP((size, *config.hidden, outputs), key=key, activation=config.activation, last_scale=0.0), discrete)


def with_bandwidth(dual: Dual, x: Array) -> Dual:
    """Set the bandwidth of random features to the median distance of these inputs [N, n]; a network is unchanged."""
    if not isinstance(dual.net, Linear):
        return dual
    width = median_bandwidth(x)
    return eqx.tree_at(lambda d: d.net.features.bandwidth, dual, jnp.full_like(dual.net.features.bandwidth, width))


def later_actions(config: SBEEDConfig, action: Array, last: Array) -> Array | None:
    """Actions t+1, ..., t+k-1 of each start's target, zero after the path's end; None where rho sees the first alone.

    action: as the environment gets them, one-hot if discrete.   [B, L, A] -> [B, L, (k - 1) A]
    """
    if config.dual_sees == "first" or config.k == 1:
        return None
    columns, alive = [], jnp.ones_like(last)
    for i in range(1, config.k):
        alive = alive & ~_shifted(last, i - 1, fill=True)
        columns.append(_shifted(action, i, fill=0) * alive[..., None])
    return jnp.concatenate(columns, axis=-1)


def _shifted(x: Array, by: int, *, fill: Any) -> Array:
    """x[:, t + by], and `fill` past the segment's end."""
    pad = [(0, 0), (0, by)] + [(0, 0)] * (x.ndim - 2)
    return jnp.pad(x, pad, constant_values=fill)[:, by : by + x.shape[1]]


def loss(dual: Dual, seen: tuple[Array, Array, Array | None], goal: Array, l2: Scalar) -> Array:
    """E[(goal - nu)^2] + l2 E[nu^2]"""
    nu = dual(*seen)
    return equations.dual_loss(goal.ravel(), nu.ravel()) + l2 * jnp.mean(nu**2)


def solve(dual: Dual, seen: tuple[Array, Array, Array | None], goal: Array, ridge: Scalar) -> Dual:
    """nu's last layer by ridge least squares: the exact dual of Algorithm 1 in the span of its features.

    With discrete actions each has an output of its own, so its features are phi(s) in the block of the action taken.
    """
    phi, outputs = _last_layer(dual.net, dual.inputs(*seen))
    phi, goal = phi.reshape(-1, phi.shape[-1]), goal.ravel()
    if dual.discrete:
        taken = jax.nn.one_hot(seen[1].ravel(), outputs, dtype=phi.dtype)
        phi = (phi[:, :, None] * taken[:, None, :]).reshape(len(phi), -1)
    # A GPU's default product keeps three digits, and a Gram matrix of those need not be positive.
    gram = jnp.matmul(phi.T, phi, precision="highest") / len(phi)
    moment = jnp.matmul(phi.T, goal, precision="highest") / len(phi)
    weights = ridge_solve(gram, moment, ridge + RIDGE).reshape(-1, outputs)
    if isinstance(dual.net, Linear):
        return Dual(Linear(dual.net.features, weights), dual.discrete)
    return eqx.tree_at(lambda d: (d.net.weights[-1], d.net.biases[-1]), dual, (weights[:-1], weights[-1]))


def _last_layer(net: MLP | Linear, x: Array) -> tuple[Array, int]:
    """The features that the output is linear in, a constant among them, and the number of outputs."""
    if isinstance(net, Linear):
        return net.features(x), net.weights.shape[-1]
    phi = net.hidden(x)
    return jnp.concatenate([phi, jnp.ones_like(phi[..., :1])], axis=-1), net.weights[-1].shape[-1]
