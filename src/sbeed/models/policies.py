"""Policies: raw actions, their log-densities, and the actions that the environment receives.

A policy draws a *raw* action, stores it and scores it; `squash` gives what the environment receives. For a squashed
policy the raw action is the one before tanh, so that its density is exact even where tanh saturates.

A policy is its `distribution`; everything else follows from it. `on_host` copies it into numpy, to act with.
"""

import abc
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.models import forward, host
from sbeed.models.distributions import Finite, Normal
from sbeed.models.features import Features
from sbeed.models.host import HostCategorical, HostCorrelated, HostGaussian, HostPolicy
from sbeed.models.nets import MLP
from sbeed.models.normalize import Normalizer
from sbeed.ops.prox import GaussianStep, gaussian_natural_gradient
from sbeed.types import Array, Key, Scalar


class Policy(eqx.Module):
    """pi(a|s). Leading axes of obs are batch axes."""

    @abc.abstractmethod
    def distribution(self, obs: Array) -> Any:
        """The distribution of raw actions for each observation, a Normal or a Finite."""

    @abc.abstractmethod
    def squash(self, action: Array) -> Array:
        """The action that the environment, or a critic, receives for a raw action."""

    @abc.abstractmethod
    def explore(self, obs: Array, key: Key) -> Array:
        """Draw for each observation an action uniform over all that the environment accepts, in its raw form."""

    @abc.abstractmethod
    def on_host(self) -> HostPolicy:
        """Copy the policy into numpy."""

    def sample(self, obs: Array, key: Key) -> tuple[Array, Array]:
        """Draw a raw action, differentiable in the parameters in a box, and return it with its log-density."""
        return self.distribution(obs).sample(key)

    def act(self, obs: Array, noise: Array, key: Key) -> tuple[Array, Array]:
        """Draw a raw action; also returns the noise to pass to the episode's next call. It is 0 at the start."""
        return self.distribution(obs).sample_after(noise, key)

    def log_prob(self, obs: Array, action: Array) -> Array:
        """log pi of the actions that the environment receives, given as raw actions; squashing counts."""
        return self.distribution(obs).log_prob(action)

    def mode(self, obs: Array) -> Array:
        """The raw action that the deterministic policy takes."""
        return self.distribution(obs).mode()

    def kl(self, other: "Policy", obs: Array) -> Array:
        """KL(self(.|s) || other(.|s)) at every state, in closed form; both of one kind.   [..., n] -> [...]"""
        return self.distribution(obs).kl(other.distribution(obs))


class GaussianPolicy(Policy):
    """Continuous actions in [-1, 1]: by tanh if squashed, else the environment clips."""

    squashed: eqx.AbstractClassVar[bool]

    def squash(self, action: Array) -> Array:
        return jnp.tanh(action) if self.squashed else action

    def explore(self, obs: Array, key: Key) -> Array:
        mean = self.mode(obs)
        if self.squashed:  # short of the edge, whose raw action is infinite
            return jnp.arctanh(jax.random.uniform(key, mean.shape, mean.dtype, -0.999, 0.999))
        return jax.random.uniform(key, mean.shape, mean.dtype, -1, 1)


class TanhGaussian(GaussianPolicy):
    """a = tanh(u), u ~ N(mean(s), diag std(s)^2), both from one network."""

    net: MLP  # [..., n] -> [..., 2 A]
    log_std_min: float = eqx.field(static=True, default=-5.0)
    log_std_max: float = eqx.field(static=True, default=2.0)
    squashed: ClassVar[bool] = True

    def distribution(self, obs: Array) -> Normal:
        mean, log_std = forward.mean_and_log_std(self.net(obs), self.log_std_min, self.log_std_max, jnp)
        return Normal(mean, log_std, squashed=True)

    def on_host(self) -> HostPolicy:
        outputs = partial(host.mean_and_std, _net_on_host(self.net), self.log_std_min, self.log_std_max)
        return HostGaussian(outputs, self.net.biases[-1].shape[0] // 2, squashed=True)


class Gaussian(GaussianPolicy):
    """a ~ N(net(s), diag exp(2 log_std)): one standard deviation for all states."""

    net: MLP
    log_std: Array  # [A]
    squashed: ClassVar[bool] = False

    def distribution(self, obs: Array) -> Normal:
        mean = self.net(obs)
        return Normal(mean, jnp.broadcast_to(self.log_std, mean.shape), squashed=False)

    def on_host(self) -> HostPolicy:
        return _gaussian_on_host(_net_on_host(self.net), self.log_std)


class LinearGaussian(GaussianPolicy):
    """a ~ N(phi(s) weights, diag exp(2 log_std)), the paper's policy: only weights and log_std are trained."""

    features: Features
    weights: Array  # [D, A]
    log_std: Array  # [A]
    squashed: ClassVar[bool] = False

    def distribution(self, obs: Array) -> Normal:
        mean = forward.on_rows(lambda rows: self.features(rows) @ self.weights, obs)
        return Normal(mean, jnp.broadcast_to(self.log_std, mean.shape), squashed=False)

    def natural_gradient(self, obs: Array, g: "LinearGaussian", ridge: Scalar) -> "LinearGaussian":
        """F^-1 g, F the Fisher information over the states given; zero for the features.   obs: [..., n]

        ridge: relative to the mean square of a feature. At the median-trick bandwidth features are nearly collinear,
        so without one float32 has no digits left.
        """
        phi = self.features(obs).reshape(-1, self.features.size)
        # A GPU's default product keeps three digits, and a Gram matrix of those need not be positive.
        gram = jnp.matmul(phi.T, phi, precision="highest") / phi.shape[0]
        step = gaussian_natural_gradient(gram, self.log_std, GaussianStep(g.weights.T, g.log_std), ridge=ridge)
        zero = jax.tree.map(jnp.zeros_like, self)
        return eqx.tree_at(lambda p: (p.weights, p.log_std), zero, (step.weights.T, step.log_std))

    def on_host(self) -> HostPolicy:
        return _gaussian_on_host(_linear_on_host(self.features, self.weights), self.log_std)


class NoisyMean(Policy):
    """a = tanh(mean(s)) + noise, cut to [-1, 1]: the mean of a Gaussian policy alone, explored around.

    The noise is Ornstein-Uhlenbeck's, n_t = (1 - theta) n_{t-1} + std N(0, 1), from 0 in every episode; white where
    theta = 1. Its `distribution` is that of the settled noise. The policy's own standard deviation plays no part.
    """

    policy: Gaussian | LinearGaussian
    std: Scalar  # of what one step adds
    theta: Scalar  # (0, 1]: the share of the noise that one step takes away

    def distribution(self, obs: Array) -> Normal:
        mean = jnp.tanh(self.policy.mode(obs))
        log_std = jnp.broadcast_to(jnp.log(self._settled_std()).astype(mean.dtype), mean.shape)
        return Normal(mean, log_std, squashed=False, persistence=jnp.asarray(1 - self.theta, mean.dtype))

    def _settled_std(self) -> Array:
        """The standard deviation to which n settles: its variance is (1 - theta)^2 times itself plus std^2."""
        return self.std / jnp.sqrt(1 - jnp.square(1 - self.theta))

    def squash(self, action: Array) -> Array:
        return jnp.clip(action, -1, 1)

    def explore(self, obs: Array, key: Key) -> Array:
        return self.policy.explore(obs, key)

    def on_host(self) -> HostPolicy:
        bare = self.policy.on_host()
        outputs = partial(host.noisy_tanh, bare.outputs, np.float32(self._settled_std()))
        return HostCorrelated(outputs, bare.actions, persistence=float(1 - self.theta))


class CategoricalPolicy(Policy):
    """Discrete actions: pi(a|s) = softmax(logits(s))_a"""

    @abc.abstractmethod
    def logits(self, obs: Array) -> Array:
        """[..., n] -> [..., actions]"""

    def distribution(self, obs: Array) -> Finite:
        return Finite(jax.nn.log_softmax(self.logits(obs)))

    def squash(self, action: Array) -> Array:
        return action

    def explore(self, obs: Array, key: Key) -> Array:
        logits = self.logits(obs)
        return jax.random.randint(key, logits.shape[:-1], 0, logits.shape[-1])


class Categorical(CategoricalPolicy):
    """logits(s) = net(s)"""

    net: MLP

    def logits(self, obs: Array) -> Array:
        return self.net(obs)

    def on_host(self) -> HostPolicy:
        return HostCategorical(_net_on_host(self.net), self.net.biases[-1].shape[0])


class LinearCategorical(CategoricalPolicy):
    """logits(s) = phi(s) weights; with `Identity` features without a constant, on one-hot states, it is a table."""

    features: Features
    weights: Array  # [D, actions]

    def logits(self, obs: Array) -> Array:
        return forward.on_rows(lambda rows: self.features(rows) @ self.weights, obs)

    def on_host(self) -> HostPolicy:
        return HostCategorical(_linear_on_host(self.features, self.weights), self.weights.shape[1])


class Normalized(Policy):
    """A policy that sees normalised observations."""

    policy: Policy
    normalizer: Normalizer

    def distribution(self, obs: Array) -> Any:
        return self.policy.distribution(self.normalizer(obs))

    def squash(self, action: Array) -> Array:
        return self.policy.squash(action)

    def explore(self, obs: Array, key: Key) -> Array:
        return self.policy.explore(obs, key)

    def on_host(self) -> HostPolicy:
        actor = self.policy.on_host()
        if self.normalizer.count > 0:
            mean, inverse_std = _copy(self.normalizer.mean), _copy(self.normalizer.inverse_std)
            actor.outputs = partial(host.standardized, actor.outputs, mean, inverse_std)
        return actor


def _gaussian_on_host(mean: Any, log_std: Array) -> HostPolicy:
    return HostGaussian(partial(host.mean_with_std, mean, np.exp(_copy(log_std))), log_std.shape[0], squashed=False)


def _net_on_host(net: MLP) -> Any:
    return _mlp_on_host(net.weights, net.biases, net.activation, net.layer_norm)


def _linear_on_host(features: Features, weights: Array) -> Any:
    return _mlp_on_host(*features.layers(weights), "sin", False)


def _mlp_on_host(weights: list[Array], biases: list[Array], activation: str, layer_norm: bool) -> Any:
    layers = [_copy(W) for W in weights], [_copy(b) for b in biases]
    return partial(host.network, *layers, activation, layer_norm)


def _copy(x: Array) -> np.ndarray:
    # Not a view: the device may use its memory again.
    return np.array(x, np.float32, order="C")
