"""The dual player: what is learned of rho, and how it is fitted.

| form | rho(s, a) | learned y(s, a) | regresses on |
|---|---|---|---|
| `net`, `linear` | V(s) + nu(s, a) | nu | delta - V |
| `critic` | Q(s, a) - lam log pi(a|s) | Q | delta + lam log pi(a_0|s_0) |

Either way y fits what is left of E[delta | s, a] once the known part is taken off, so rho follows V and pi at once.
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
    """y = weights^T phi(x), with random features that stay as they were drawn."""

    features: FourierFeatures  # the last one is the constant
    weights: Array  # [D, out]

    def __call__(self, x: Array) -> Array:
        return on_rows(lambda rows: self.features(rows) @ self.weights, x)


class Dual(eqx.Module):
    """`twins` functions y(s, a), stacked: every array of `net` has a leading axis.

    Discrete actions are outputs, those of a box inputs, as are the later actions where rho sees them.
    """

    net: MLP | Linear
    discrete: bool = eqx.field(static=True)

    def all_actions(self, obs: Array, later: Array | None = None) -> Array:
        """y of every discrete action.   [..., n] -> [twins, ..., A]"""
        x = obs if later is None else jnp.concatenate([obs, later], axis=-1)
        return jax.vmap(lambda net: net(x))(self.net)

    def __call__(self, obs: Array, action: Array, later: Array | None = None) -> Array:
        """y of these actions, as the environment gets them.   [..., n], [..., A] or integers -> [twins, ...]"""
        if self.discrete:
            every = self.all_actions(obs, later)
            index = jnp.broadcast_to(action.astype(int), every.shape[:-1])
            return jnp.take_along_axis(every, index[..., None], axis=-1)[..., 0]
        x = self.inputs(obs, action, later)
        return jax.vmap(lambda net: net(x)[..., 0])(self.net)

    def inputs(self, obs: Array, action: Array, later: Array | None) -> Array:
        """What the networks see."""
        parts = [obs] if self.discrete else [obs, action]
        return jnp.concatenate(parts if later is None else [*parts, later], axis=-1)


def init(config: SBEEDConfig, spec: EnvSpec, key: Key) -> Dual:
    discrete = spec.action_kind == "discrete"
    seen = config.k if config.dual_sees == "all" else 1
    later = (seen - 1) * spec.action_size
    size = spec.observation_size + later + (0 if discrete else spec.action_size)
    outputs = spec.action_size if discrete else 1

    def make(k: Key) -> MLP | Linear:
        if config.dual == "linear" and config.dual_features == "rbf":
            features = FourierFeatures(size, config.features, key=k)
            return Linear(features, jnp.zeros((config.features + 1, outputs), jnp.float32))
        # nu starts as the zero function: before the dual has seen data, rho = V and L_eta is (1 - eta) PCL.
        scale = 1.0 if config.dual == "critic" else 0.0
        sizes = (size, *config.hidden, outputs)
        return MLP(sizes, key=k, activation=config.activation, layer_norm=config.layer_norm, last_scale=scale)

    return Dual(jax.vmap(make)(jax.random.split(key, config.twins)), discrete)


def with_bandwidth(dual: Dual, x: Array) -> Dual:
    """Random features at the median distance of these inputs [N, n]; networks stay as they are."""
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
    """The sum over twins of E[(goal - y)^2] + l2 E[y^2]."""
    y = dual(*seen)
    return jnp.sum(jax.vmap(lambda one: equations.dual_loss(goal.ravel(), one.ravel()) + l2 * jnp.mean(one**2))(y))


def solve(dual: Dual, seen: tuple[Array, Array, Array | None], goal: Array, ridge: Scalar) -> Dual:
    """y's last layer by ridge least squares: the exact dual of Algorithm 1 in the span of its features.

    With discrete actions each has an output of its own, so its features are phi(s) in the block of the action taken.
    """
    net = jax.tree.map(lambda leaf: leaf[0], dual.net)  # an exact solution has no twin
    phi, outputs = _last_layer(net, dual.inputs(*seen))
    phi, goal = phi.reshape(-1, phi.shape[-1]), goal.ravel()
    if dual.discrete:
        taken = jax.nn.one_hot(seen[1].ravel(), outputs, dtype=phi.dtype)
        phi = (phi[:, :, None] * taken[:, None, :]).reshape(len(phi), -1)
    # A GPU's default product keeps three digits, and a Gram matrix of those need not be positive.
    gram = jnp.matmul(phi.T, phi, precision="highest") / len(phi)
    moment = jnp.matmul(phi.T, goal, precision="highest") / len(phi)
    weights = ridge_solve(gram, moment, ridge + RIDGE).reshape(-1, outputs)
    if isinstance(net, Linear):
        new: MLP | Linear = Linear(net.features, weights)
    else:
        new = eqx.tree_at(lambda n: (n.weights[-1], n.biases[-1]), net, (weights[:-1], weights[-1]))
    return Dual(jax.tree.map(lambda leaf: leaf[None], new), dual.discrete)


def _last_layer(net: MLP | Linear, x: Array) -> tuple[Array, int]:
    """The features that the output is linear in, a constant among them, and the number of outputs."""
    if isinstance(net, Linear):
        return net.features(x), net.weights.shape[-1]
    phi = net.hidden(x)
    return jnp.concatenate([phi, jnp.ones_like(phi[..., :1])], axis=-1), net.weights[-1].shape[-1]
