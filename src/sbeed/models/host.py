"""Acting on the host: policies as plain numpy arrays, for one observation without the price of a dispatch.

They travel to worker processes, so they pickle, and nothing here loads jax.
"""

import abc
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sbeed.models import forward


class HostPolicy(abc.ABC):
    """A policy's copy in numpy, to act with, without its density. Leading axes of obs are batch axes."""

    __slots__ = ("actions", "outputs")

    def __init__(self, outputs: Callable[[np.ndarray], Any], actions: int):
        """outputs: from observations to the distribution's parameters. actions: dimensions, or number if discrete."""
        self.outputs, self.actions = outputs, actions

    @abc.abstractmethod
    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        """A raw action: float32, or an integer if discrete."""

    def act(self, obs: np.ndarray, noise: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """A draw, and the noise to pass to the episode's next call, 0 at its start. Most policies ignore it."""
        return self.draw(obs, rng), noise

    @abc.abstractmethod
    def mode(self, obs: np.ndarray) -> Any:
        """The raw action that the deterministic policy takes."""

    @abc.abstractmethod
    def squash(self, action: Any) -> Any:
        """The action that the environment receives for a raw action."""

    @abc.abstractmethod
    def unsquash(self, action: Any) -> Any:
        """Invert `squash`: the raw action for an action that another policy drew."""

    @abc.abstractmethod
    def explore(self, rng: np.random.Generator) -> Any:
        """The raw form of one action uniform over all that the environment takes."""


class HostGaussian(HostPolicy):
    """`outputs` gives the mean and the standard deviation, both float32."""

    __slots__ = ("squashed",)

    def __init__(self, outputs: Callable[[np.ndarray], tuple[Any, Any]], actions: int, squashed: bool):
        super().__init__(outputs, actions)
        self.squashed = squashed

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, std = self.outputs(obs)
        return mean + std * rng.standard_normal(mean.shape, np.float32)

    def mode(self, obs: np.ndarray) -> np.ndarray:
        return self.outputs(obs)[0]

    def squash(self, action: np.ndarray) -> np.ndarray:
        return np.tanh(action) if self.squashed else action

    def unsquash(self, action: Any) -> np.ndarray:
        action = np.asarray(action, np.float32)
        return np.arctanh(np.clip(action, -0.999999, 0.999999)) if self.squashed else action

    def explore(self, rng: np.random.Generator) -> np.ndarray:
        if self.squashed:  # short of the edge, whose raw action is infinite
            return np.arctanh(rng.uniform(-0.999, 0.999, self.actions)).astype(np.float32)
        return rng.uniform(-1, 1, self.actions).astype(np.float32)


class HostCorrelated(HostGaussian):
    """A Gaussian in [-1, 1] whose noise is correlated from one action of an episode to the next."""

    __slots__ = ("persistence",)

    def __init__(self, outputs: Callable[[np.ndarray], tuple[Any, Any]], actions: int, persistence: float):
        super().__init__(outputs, actions, squashed=False)
        self.persistence = persistence

    def act(self, obs: np.ndarray, noise: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        mean, std = self.outputs(obs)
        fresh = rng.standard_normal(mean.shape, np.float32)
        noise = self.persistence * noise + math.sqrt(1 - self.persistence**2) * fresh
        return mean + std * noise, noise

    def squash(self, action: np.ndarray) -> np.ndarray:
        return np.clip(action, -1, 1)


class HostCategorical(HostPolicy):
    """`outputs` gives the logits."""

    __slots__ = ()

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        logits = self.outputs(obs)
        return (logits + rng.gumbel(size=logits.shape)).argmax(-1)  # the Gumbel trick: argmax of these is a draw

    def mode(self, obs: np.ndarray) -> Any:
        return self.outputs(obs).argmax(-1)

    def squash(self, action: Any) -> Any:
        return action

    def unsquash(self, action: Any) -> Any:
        return action

    def explore(self, rng: np.random.Generator) -> int:
        return int(rng.integers(self.actions))


def network(
    weights: list[np.ndarray], biases: list[np.ndarray], activation: str, layer_norm: bool, obs: np.ndarray
) -> np.ndarray:
    """`outputs` of a network: the logits or the mean."""
    return forward.mlp(weights, biases, obs, activation=activation, layer_norm=layer_norm, xp=np)


def least_of_networks(networks: list[Callable], lam: float, prior: Callable | None, obs: np.ndarray) -> np.ndarray:
    """`outputs` of pi_Q: the smaller of the networks' values over lam, plus the prior's log-probabilities if any."""
    least = networks[0](obs)
    for net in networks[1:]:
        least = np.minimum(least, net(obs))
    logits = least / np.float32(lam)
    return logits if prior is None else logits + log_softmax(prior(obs))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def normalized_network(
    weights: list[np.ndarray],
    biases: list[np.ndarray],
    norms: list[tuple[str, Any, Any]],
    obs: np.ndarray,
) -> np.ndarray:
    """A relu network whose hidden layers may be normalised row by row; norms: the kind, gain and shift of each."""
    for W, b, (norm, gain, shift) in zip(weights, biases, norms):
        z = obs @ W + b
        obs = np.maximum(z if norm == "none" else forward.row_norm(z, norm, gain, shift, np), 0)
    return obs @ weights[-1] + biases[-1]


def mean_and_std(net: Callable, low: float, high: float, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`outputs` of a Gaussian whose network gives both."""
    mean, log_std = forward.mean_and_log_std(net(obs), low, high, np)
    return mean, np.exp(log_std)


def mean_with_std(mean: Callable, std: np.ndarray, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`outputs` of a Gaussian with one standard deviation for all states."""
    return mean(obs), std


def noisy_tanh(outputs: Callable, std: np.float32, obs: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """`outputs` of a mean through tanh, with another standard deviation than its own."""
    return np.tanh(outputs(obs)[0]), std


def standardized(outputs: Callable, mean: np.ndarray, inverse_std: np.ndarray, obs: np.ndarray) -> Any:
    """`outputs` of a policy that sees normalised observations."""
    return outputs(forward.standardize(mean, inverse_std, obs, np))
