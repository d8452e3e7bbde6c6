"""The dual player nu = rho - Q, an estimate of E[delta - Q | s, a], and how it is fitted.

It starts at zero, where L_eta's gradient with eta = 1 is the semi-gradient, and is regressed on delta - Q.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.shared.steps import optimizer, stepped
from sbeed.models.nets import MLP
from sbeed.ops.linalg import ridge_solve
from sbeed.types import Array, EnvSpec, Key

RIDGE = 1e-4  # of the mean diagonal, at the least: hidden units are nearly dependent


class Seen(eqx.Module):
    """Inputs of the duals of both twins."""

    phi: Array  # the last hidden layers of Q: [twins, B, width]
    x: Array  # the inputs of Q: [B, in]
    action: Array | None  # integers [B], where actions are outputs


class Head(eqx.Module):
    """nu = weights^T phi / sqrt(E |phi|^2), phi the last hidden layer of Q and a constant, which nu does not train.

    Features of unit mean square make the steps, and the ridge, free of units.
    """

    weights: Array  # [twins, width + 1, A or 1]

    def outputs(self, seen: Seen) -> Array:
        return unit_features(seen.phi) @ self.weights


class Net(eqx.Module):
    """nu as a network of its own for each twin."""

    net: MLP

    def outputs(self, seen: Seen) -> Array:
        return jax.vmap(lambda net: net(seen.x))(self.net)


Dual = Head | Net


def unit_features(phi: Array) -> Array:
    """(phi, 1) / sqrt(E |(phi, 1)|^2)   [twins, B, width] -> [twins, B, width + 1]"""
    phi = jnp.concatenate([phi, jnp.ones_like(phi[..., :1])], axis=-1)
    return phi * jax.lax.rsqrt(jnp.mean(jnp.sum(phi**2, axis=-1), axis=-1))[:, None, None]


def init(config: QConfig, spec: EnvSpec, key: Key) -> Dual | None:
    if config.dual == "none":
        return None
    discrete = spec.action_kind == "discrete"
    inputs = spec.observation_size + (0 if discrete else spec.action_size)
    outputs = spec.action_size if discrete else 1
    if config.dual != "net":
        last_hidden = config.hidden[-1] if config.hidden else inputs
        return Head(jnp.zeros((config.twins, last_hidden + 1, outputs), jnp.float32))
    make = lambda k: MLP((inputs, *config.hidden, outputs), key=k, layer_norm=config.norm != "none", last_scale=0.0)
    return Net(jax.vmap(make)(jax.random.split(key, config.twins)))


def nu(dual: Dual | None, seen: Seen) -> Array:
    """nu at each target's state and action.   -> [twins, B]"""
    if dual is None:
        return jnp.zeros(seen.phi.shape[:2], seen.phi.dtype)
    y = dual.outputs(seen)
    if seen.action is None:
        return y[..., 0]
    return jnp.take_along_axis(y, jnp.broadcast_to(seen.action[None, :, None], (len(y), y.shape[1], 1)), axis=-1)[
        ..., 0
    ]


def fitted(
    config: QConfig, dual: Dual | None, opt: optax.OptState, seen: Seen, error: Array
) -> tuple[Dual | None, optax.OptState]:
    """Fit the dual to `error` = delta - Q [twins, B]: by Adam steps with weight decay, or by least squares."""
    if dual is None:
        return dual, opt
    if config.dual == "linear":
        assert isinstance(dual, Head)
        return solved(config, dual, seen, error), opt
    adam = optimizer("adam", config.dual_step_size)

    def step(carry: tuple[Dual, optax.OptState], _: None) -> tuple[tuple[Dual, optax.OptState], None]:
        dual, opt = carry
        # A sum over twins: each steps as if it were alone.
        g = eqx.filter_grad(lambda d: jnp.sum(jnp.mean((error - nu(d, seen)) ** 2, axis=-1)) / 2)(dual)
        if isinstance(dual, Net):
            dual, opt = stepped(adam, dual, opt, g)
            return (jax.tree.map(lambda w: (1 - config.dual_step_size * config.dual_ridge) * w, dual), opt), None
        down = lambda w, g: w - config.dual_step_size * (g + config.dual_ridge * w)
        return (jax.tree.map(down, dual, g), opt), None

    if config.dual_steps == 1:
        return step((dual, opt), None)[0]
    return jax.lax.scan(step, (dual, opt), None, config.dual_steps)[0]


def solved(config: QConfig, dual: Head, seen: Seen, error: Array) -> Head:
    """The exact dual of Algorithm 1 in the span of Q's last hidden layer: ridge least squares on the batch."""

    def solve(phi: Array, error: Array) -> Array:
        if seen.action is not None:  # each action has weights of its own
            taken = jax.nn.one_hot(seen.action, dual.weights.shape[-1], dtype=phi.dtype)
            phi = (phi[:, :, None] * taken[:, None, :]).reshape(len(phi), -1)
        # A GPU's default product keeps three digits, and a Gram matrix of those need not be positive.
        gram = jnp.matmul(phi.T, phi, precision="highest") / len(phi)
        moment = jnp.matmul(phi.T, error, precision="highest") / len(phi)
        ridge = RIDGE + config.dual_ridge * gram.shape[0] / jnp.trace(gram)  # `ridge_solve` counts in mean diagonals
        return ridge_solve(gram, moment, ridge).reshape(-1, dual.weights.shape[-1])

    return Head(jax.vmap(solve)(unit_features(seen.phi), error))
