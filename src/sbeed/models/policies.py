"""Policies: what they draw, how likely it was, and what the environment gets of it.

A policy draws a *raw* action, stores it and scores it; `squash` gives what the environment receives. For a tanh policy
the raw action is the one before tanh, so that its density is exact even where tanh saturates.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.models.nets import MLP, Numpy
from sbeed.types import AnyArray, Array, EnvSpec, Key

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


class Policy(eqx.Module):
    """pi(a|s). Leading axes of obs are batch axes."""

    @abc.abstractmethod
    def sample(self, obs: Array, key: Key) -> tuple[Array, Array]:
        """A raw action, differentiable in the parameters where actions are continuous, and its log-density."""

    @abc.abstractmethod
    def log_prob(self, obs: Array, action: Array) -> Array:
        """log pi of raw actions."""

    @abc.abstractmethod
    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> AnyArray:
        """A raw action on the host, for one observation; the parameters must be numpy arrays."""

    @abc.abstractmethod
    def mode(self, obs: AnyArray, xp: Numpy = jnp) -> AnyArray:
        """The raw action that the deterministic policy takes."""

    @abc.abstractmethod
    def squash(self, action: AnyArray, xp: Numpy = jnp) -> AnyArray:
        """What the environment, or a critic, receives of a raw action."""


def _normal_log_prob(x: Array, mean: Array, log_std: Array) -> Array:
    z = (x - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * z * z - log_std - HALF_LOG_2PI, axis=-1)


class TanhGaussian(Policy):
    """a = tanh(u), u ~ N(mean(s), diag std(s)^2), both from one network."""

    net: MLP
    log_std_min: float = eqx.field(static=True, default=-5.0)
    log_std_max: float = eqx.field(static=True, default=2.0)

    def distribution(self, obs: AnyArray, xp: Numpy = jnp) -> tuple[AnyArray, AnyArray]:
        mean, log_std = xp.split(self.net(obs, xp), 2, axis=-1)
        # A smooth clip: its gradient never vanishes altogether, so a std at the edge can come back.
        middle, half = (self.log_std_max + self.log_std_min) / 2, (self.log_std_max - self.log_std_min) / 2
        return mean, middle + half * xp.tanh(log_std)

    def sample(self, obs: Array, key: Key) -> tuple[Array, Array]:
        mean, log_std = self.distribution(obs)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        u = mean + jnp.exp(log_std) * noise
        log_normal = jnp.sum(-0.5 * noise * noise - log_std - HALF_LOG_2PI, axis=-1)
        return u, log_normal - _log_tanh_slope(u)

    def log_prob(self, obs: Array, action: Array) -> Array:
        return _normal_log_prob(action, *self.distribution(obs)) - _log_tanh_slope(action)

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> AnyArray:
        mean, log_std = self.distribution(obs, np)
        return (mean + np.exp(log_std) * rng.standard_normal(mean.shape, np.float32)).astype(np.float32)

    def mode(self, obs: AnyArray, xp: Numpy = jnp) -> AnyArray:
        return self.distribution(obs, xp)[0]

    def squash(self, action: AnyArray, xp: Numpy = jnp) -> AnyArray:
        return xp.tanh(action)


def _log_tanh_slope(u: Array) -> Array:
    """log prod_i (1 - tanh(u_i)^2), without the cancellation."""
    return jnp.sum(2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u)), axis=-1)


class Categorical(Policy):
    """pi(a|s) = softmax(net(s))_a; with no hidden layer on one-hot states it is a table."""

    net: MLP

    def log_probs(self, obs: Array) -> Array:
        """log pi of every action.   [..., actions]"""
        return jax.nn.log_softmax(self.net(obs))

    def sample(self, obs: Array, key: Key) -> tuple[Array, Array]:
        log_pi = self.log_probs(obs)
        action = jax.random.categorical(key, log_pi)
        return action, jnp.take_along_axis(log_pi, action[..., None], axis=-1)[..., 0]

    def log_prob(self, obs: Array, action: Array) -> Array:
        return jnp.take_along_axis(self.log_probs(obs), action[..., None].astype(int), axis=-1)[..., 0]

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> int:
        logits = self.net(obs, np)
        return int(np.argmax(logits + rng.gumbel(size=logits.shape)))  # the Gumbel trick: argmax of these is a draw

    def mode(self, obs: AnyArray, xp: Numpy = jnp) -> AnyArray:
        return xp.argmax(self.net(obs, xp), axis=-1)

    def squash(self, action: AnyArray, xp: Numpy = jnp) -> AnyArray:
        return action


def random_action(spec: EnvSpec, rng: np.random.Generator) -> AnyArray:
    """What explores before there is a policy: uniform on the box, as a raw action of a tanh policy, or a fair die."""
    if spec.action_kind == "discrete":
        return int(rng.integers(spec.action_size))
    return np.arctanh(rng.uniform(-0.999, 0.999, spec.action_size)).astype(np.float32)
