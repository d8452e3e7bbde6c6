"""Fit V to a goal at the states of a round: a network by Adam, or random features by least squares."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.shared.on_policy_config import RoundConfig
from sbeed.agents.shared.steps import optimizer
from sbeed.models.features import FourierFeatures
from sbeed.models.nets import MLP
from sbeed.ops.linalg import ridge_solve
from sbeed.types import Array, EnvSpec, Key, Scalar


class LinearV(eqx.Module):
    """V(s) = phi(s) weights"""

    features: FourierFeatures
    weights: Array  # [D, 1], as a network's output

    def __call__(self, obs: Array) -> Array:
        """[..., n] -> [..., 1]"""
        return self.features(obs) @ self.weights


Baseline = MLP | LinearV


def init(config: RoundConfig, spec: EnvSpec, key: Key) -> tuple[Baseline, optax.OptState]:
    """V and its optimiser's state."""
    if config.V == "linear":
        return linear(config, spec, key), ()
    V = MLP((spec.observation_size, *config.hidden, 1), key=key, activation=config.activation, orthogonal=True)
    return V, optimizer("adam", config.V_step_size).init(V)


def linear(config: RoundConfig, spec: EnvSpec, key: Key) -> LinearV:
    """The zero function on new features."""
    phi = FourierFeatures(spec.observation_size, config.features, key=key)
    return LinearV(phi, jnp.zeros((phi.size, 1), jnp.float32))


def value(V: Baseline, obs: Array) -> Array:
    """[..., n] -> [...]"""
    return V(obs)[..., 0]


def fit(
    config: RoundConfig, V: Baseline, opt: optax.OptState, obs: Array, goal: Array, count: Array, key: Key
) -> tuple[Baseline, optax.OptState]:
    """Fit V to the goals of the last `count` rows.   obs: [N, n], goal: [N], count: []"""
    if isinstance(V, LinearV):
        return least_squares(V, obs, goal, jnp.arange(len(goal)) >= len(goal) - count, config.V_ridge), opt
    return _descend(config, V, opt, obs, goal, count, key)


def least_squares(V: LinearV, obs: Array, goal: Array, counted: Array, ridge: Scalar) -> LinearV:
    """argmin_w sum (goal - phi w)^2 + ridge |w|^2 over the rows that are counted, ridge in units of mean phi^2."""
    phi = V.features(obs) * counted[:, None]
    # A GPU's default product keeps three digits, and a Gram matrix of those need not be positive.
    gram, moment = (jnp.matmul(phi.T, x, precision="highest") for x in (phi, goal[:, None]))
    return LinearV(V.features, ridge_solve(gram, moment, ridge))


def _descend(
    config: RoundConfig, V: MLP, opt: optax.OptState, obs: Array, goal: Array, count: Array, key: Key
) -> tuple[MLP, optax.OptState]:
    adam = optimizer("adam", config.V_step_size)

    def step(carry: tuple[MLP, optax.OptState], rows: Array) -> tuple[tuple[MLP, optax.OptState], None]:
        V, opt = carry
        g = jax.grad(lambda V: jnp.mean((goal[rows] - value(V, obs[rows])) ** 2))(V)
        change, opt = adam.update(g, opt)
        return (optax.apply_updates(V, change), opt), None

    batches = len(goal) - 1 - passes(key, len(goal), (config.V_updates, config.V_batch_size)) % count
    return jax.lax.scan(step, (V, opt), batches)[0]


def passes(key: Key, number: int, shape: tuple[int, int]) -> Array:
    """Indices 0, ..., number - 1 in repeated random passes: each occurs once per pass."""
    times = -(-math.prod(shape) // number)
    orders = jax.vmap(lambda k: jax.random.permutation(k, number))(jax.random.split(key, times))
    return orders.ravel()[: math.prod(shape)].reshape(shape)
