"""An agent that learns nothing and counts everything, and environments that say where they are."""

from dataclasses import dataclass, fields
from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.base import Agent
from sbeed.data.replay import sample
from sbeed.models.nets import MLP
from sbeed.models.policies import Categorical, Policy, TanhGaussian


@dataclass(frozen=True)
class CountingConfig:
    scale: float = 1.0
    warmup: int = 8
    steps_per_iteration: int = 4
    replay_capacity: int = 64
    overlap: bool = False
    on_policy: bool = False
    trajectories_per_iteration: int | None = None
    explode_after: float = 1e9  # iterations


_FLOATS = [f.name for f in fields(CountingConfig) if f.type is float]
_STATIC = [f.name for f in fields(CountingConfig) if f.type is not float]
jax.tree_util.register_dataclass(CountingConfig, data_fields=_FLOATS, meta_fields=_STATIC)


class Counted(NamedTuple):
    pi: Policy
    prepared: jax.Array  # times
    iteration: jax.Array
    seen: jax.Array  # a number that depends on all data and keys so far


def check(config, spec):
    if config.scale < 0:
        raise ValueError(f"scale: must not be negative, got {config.scale}")


def init(config, spec, key):
    make = TanhGaussian if spec.action_kind == "box" else Categorical
    outputs = 2 * spec.action_size if spec.action_kind == "box" else spec.action_size
    return Counted(make(MLP((spec.observation_size, 4, outputs), key=key)), *jnp.zeros((3,), jnp.float32))


def prepare(config, spec, state, replay, key):
    return state._replace(prepared=state.prepared + replay.size)


def iterate(config, spec, state, replay, key):
    k_sample, k_noise = jax.random.split(key)
    batch = sample(replay, k_sample, 3, 2)
    seen = state.seen + config.scale * batch.reward.mean() + jax.random.normal(k_noise, (), jnp.float32)
    iteration = state.iteration + 1
    explosion = jnp.where(iteration > config.explode_after, jnp.float32(jnp.inf), 0)
    pi = jax.tree.map(lambda x: x + 0.01 * jnp.tanh(seen) + explosion, state.pi)
    metrics = {"seen": seen, "size": replay.size.astype(jnp.float32) + explosion}
    return Counted(pi, state.prepared, iteration, seen), metrics


def actor(config, state):
    return state.pi


def deployed(config, state):
    """The policy upside down, to tell the two apart."""
    return jax.tree.map(jnp.negative, state.pi)


COUNTING = Agent("counting", lambda name, spec: CountingConfig(), check, init, prepare, iterate, actor, deployed)


class Clockwork(gymnasium.Env):
    """Observes (episode, t); the third step of odd episodes terminates, the fifth of even ones is truncated.

    The reward is t. A path that joins two episodes has an observation that is not the one before plus (0, 1).
    """

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, first: int = 0):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
        self.episode = first

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return np.array([self.episode, self.t], np.float32), {}

    def step(self, action):
        self.t += 1
        odd = self.episode % 2 == 1
        obs = np.array([self.episode, self.t], np.float32)
        return obs, float(self.t), odd and self.t == 3, not odd and self.t == 5, {}


def paths(chunk):
    """Where each path of a chunk starts and stops: [(observations, terminated at its end)]"""
    found, start = [], 0
    for end in np.flatnonzero(chunk.last):
        found.append((np.vstack([chunk.obs[start : end + 1], chunk.next_obs[end]]), bool(chunk.terminated[end])))
        start = end + 1
    return found
