"""Tiny tasks with known answers, each of which asks for one part of a learner: the first to fail names the broken part.

| probe | asks that |
|---|---|
| `ConstantReward` | V fits a constant |
| `ObservationReward` | V sees the observation |
| `DelayedReward` | V bootstraps, and discounts once per step |
| `ActionReward` | the policy finds the better action |
| `ActionObservationReward` | the policy sees the observation |
| `TimeLimit` | V bootstraps at a time limit |
| `Termination` | V does not bootstrap at a termination |

The answers are those of lam = 0. With lam > 0 and discrete actions, each step on which the action does not matter adds
lam log 2 to V.
"""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.envs.base import JaxEnv, Step
from sbeed.types import Array, EnvSpec, Key, Scalar


class Probe(JaxEnv):
    """Base of the probes: an observation [1], and two discrete actions or, with `box`, one in [-1, 1].

    The state is (the observation, the step count). `value` is the exact V of the best policy.
    """

    box: bool = eqx.field(static=True, default=False)

    @property
    @abc.abstractmethod
    def name(self) -> str: ...

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name=f"jax:{self.name}-box" if self.box else f"jax:{self.name}",
            observation_size=1,
            action_kind="box" if self.box else "discrete",
            action_size=1 if self.box else 2,
            time_limit=None,
        )

    def reset(self, key: Key) -> tuple[Array, Array]:
        return jnp.zeros(1, jnp.float32), jnp.int32(0)

    def observe(self, state: tuple[Array, Array]) -> Array:
        return state[0]

    @abc.abstractmethod
    def value(self, obs: Array, gamma: Scalar) -> Array:
        """[..., 1] -> [...]"""


class OneStep(Probe):
    """A probe that terminates after its first step, which pays `reward`."""

    @abc.abstractmethod
    def reward(self, obs: Array, action: Array) -> Array: ...

    def step(self, state: tuple[Array, Array], action: Array, key: Key) -> Step:
        obs, t = state
        return Step((obs, t + 1), obs, self.reward(obs, action), jnp.array(True), jnp.array(False))


def coin(key: Key) -> tuple[Array, Array]:
    """A first state whose observation is -1 or 1."""
    return jax.random.rademacher(key, (1,), jnp.float32), jnp.int32(0)


class ConstantReward(OneStep):
    """One state, one step, reward 1.   V = 1"""

    name = "constant-reward"

    def reward(self, obs: Array, action: Array) -> Array:
        return jnp.ones_like(obs[0])

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return jnp.ones_like(obs[..., 0])


class ObservationReward(OneStep):
    """The observation, -1 or 1, is the reward of the only step.   V(obs) = obs"""

    name = "observation-reward"

    def reset(self, key: Key) -> tuple[Array, Array]:
        return coin(key)

    def reward(self, obs: Array, action: Array) -> Array:
        return obs[0]

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return obs[..., 0]


class DelayedReward(Probe):
    """Two steps, observed as 0 and 1; the second pays 1.   V(0) = gamma, V(1) = 1"""

    name = "delayed-reward"

    def step(self, state: tuple[Array, Array], action: Array, key: Key) -> Step:
        obs, t = state
        return Step((obs + 1, t + 1), obs + 1, obs[0], t == 1, jnp.array(False))

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return jnp.where(obs[..., 0] == 0, gamma, 1)


class ActionReward(OneStep):
    """Discrete: action 1 pays 1, action 0 nothing.   V = 1.   Box: r = -(a - 1/2)^2.   V = 0"""

    name = "action-reward"

    def reward(self, obs: Array, action: Array) -> Array:
        return _score(action, self.best_action(obs), self.box, obs.dtype)

    def best_action(self, obs: Array) -> Array:
        """[..., 1] -> [..., 1] for a box, [...] if discrete"""
        return jnp.full_like(obs, 0.5) if self.box else jnp.ones(obs.shape[:-1], jnp.int32)

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return jnp.full_like(obs[..., 0], 0 if self.box else 1)


class ActionObservationReward(OneStep):
    """obs is -1 or 1. Discrete: action 0 pays 1 at -1, action 1 at 1.   V = 1.   Box: r = -(a - obs/2)^2.   V = 0"""

    name = "action-observation-reward"

    def reset(self, key: Key) -> tuple[Array, Array]:
        return coin(key)

    def reward(self, obs: Array, action: Array) -> Array:
        return _score(action, self.best_action(obs), self.box, obs.dtype)

    def best_action(self, obs: Array) -> Array:
        """[..., 1] -> [..., 1] for a box, [...] if discrete"""
        return obs / 2 if self.box else (obs[..., 0] > 0).astype(jnp.int32)

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return jnp.full_like(obs[..., 0], 0 if self.box else 1)


def _score(action: Array, best: Array, box: bool, dtype: jnp.dtype) -> Array:
    if box:
        return -((jnp.clip(action.astype(dtype), -1, 1) - best)[0] ** 2)
    return (action == best).astype(dtype)


class TimeLimit(Probe):
    """Every step pays 1 and the fifth is truncated; obs is the share of the five steps that is behind.

    V = 1 / (1 - gamma), whatever obs: a time limit says nothing about the value of what would follow. An agent that
    takes the limit for a termination learns `Termination`'s V.
    """

    name = "time-limit"

    @property
    def spec(self) -> EnvSpec:
        return dataclasses.replace(super().spec, time_limit=5)

    def step(self, state: tuple[Array, Array], action: Array, key: Key) -> Step:
        after = _tick(state)
        return Step(after, after[0], jnp.ones_like(after[0][0]), jnp.array(False), after[1] >= 5)

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return jnp.full_like(obs[..., 0], 1 / (1 - gamma))


class Termination(Probe):
    """`TimeLimit`, but the fifth step terminates.   V(obs) = (1 - gamma^n) / (1 - gamma), n = 5 - 5 obs steps to go"""

    name = "termination"

    def step(self, state: tuple[Array, Array], action: Array, key: Key) -> Step:
        after = _tick(state)
        return Step(after, after[0], jnp.ones_like(after[0][0]), after[1] >= 5, jnp.array(False))

    def value(self, obs: Array, gamma: Scalar) -> Array:
        return (1 - gamma ** (5 - 5 * obs[..., 0])) / (1 - gamma)


def _tick(state: tuple[Array, Array]) -> tuple[Array, Array]:
    obs, t = state
    return jnp.full_like(obs, (t + 1) / 5), t + 1


PROBES = (
    ConstantReward,
    ObservationReward,
    DelayedReward,
    ActionReward,
    ActionObservationReward,
    TimeLimit,
    Termination,
)
