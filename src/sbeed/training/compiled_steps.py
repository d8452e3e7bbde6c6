"""The compiled parts of a member's iteration: pure functions of its config, key, State and replay.

A population runs them vmapped or side by side (`members`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.base import Agent, Config, State
from sbeed.collect import rollout
from sbeed.collect.rollout import RolloutState
from sbeed.data import replay as ring
from sbeed.data.replay import Replay
from sbeed.envs.base import JaxEnv
from sbeed.types import Array, EnvSpec, Key


class Keys(NamedTuple):
    """Purposes of a member's keys; they differ from the keys of iterations, because 0 is no step count."""

    init: Key
    env: Key
    evaluation: Key


def keys(key: Key) -> Keys:
    return Keys(*jax.random.split(jax.random.fold_in(key, 0), 3))


def first_state(config: Config, key: Key, *, agent: Agent, spec: EnvSpec) -> State:
    return agent.init(config, spec, keys(key).init)


def empty_replay(config: Config, *, spec: EnvSpec) -> Replay:
    return ring.empty(spec, config.replay_capacity)


def begin_rollout(env: JaxEnv, key: Key) -> RolloutState:
    return rollout.begin(env, keys(key).env)


def prepare(
    config: Config, key: Key, state: State, replay: Replay, step: Array, *, agent: Agent, spec: EnvSpec
) -> State:
    k_prepare, _ = jax.random.split(jax.random.fold_in(key, step))
    return agent.prepare(config, spec, state, replay, k_prepare)


def learn(
    config: Config, key: Key, state: State, replay: Replay, step: Array, *, agent: Agent, spec: EnvSpec
) -> tuple[State, dict[str, Array], Array]:
    """Make an iteration's updates; also returns their metrics and whether the policies afterwards are finite."""
    _, k_iterate = jax.random.split(jax.random.fold_in(key, step))
    state, metrics = agent.iterate(config, spec, state, replay, k_iterate)
    return state, metrics, finite((agent.actor(config, state), agent.deployed(config, state)))


def finite(tree: Any) -> Array:
    floats = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.all(jnp.array([jnp.isfinite(leaf).all() for leaf in floats]))


def collect_and_learn(
    config: Config,
    key: Key,
    state: State,
    replay: Replay,
    env: JaxEnv,
    now: RolloutState,
    step: Array,
    count: Array,
    exploring: Array,
    preparing: Array,
    learning: Array,
    *,
    agent: Agent,
    spec: EnvSpec,
    length: int,
) -> tuple[State, Replay, RolloutState, dict[str, Array], Array, Array, Array]:
    """A whole iteration of one member, of any stage and length: one program, compiled once."""
    acting = agent.actor(config, state)
    now, chunk, returns = rollout.collect(
        env, acting, now, keys(key).env, length=length, count=count, exploring=exploring
    )
    replay = ring.insert(replay, chunk, count)
    state = jax.lax.cond(
        preparing, lambda s: prepare(config, key, s, replay, step, agent=agent, spec=spec), lambda s: s, state
    )
    learned = partial(learn, config, key, replay=replay, step=step, agent=agent, spec=spec)
    _, nothing, _ = jax.eval_shape(learned, state)
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), nothing)
    state, metrics, finite = jax.lax.cond(learning, learned, lambda s: (s, zeros, jnp.array(True)), state)
    return state, replay, now, metrics, finite, returns, rollout.first_fault(now, chunk, count)


def evaluate(
    config: Config, key: Key, state: State, env: JaxEnv, *, agent: Agent, episodes: int
) -> tuple[Array, Array, Array]:
    return rollout.evaluate(env, agent.deployed(config, state), keys(key).evaluation, episodes=episodes)
