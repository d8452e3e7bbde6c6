"""Our learner's updates as compiled programs, at the sizes to be measured, on data of HalfCheetah."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import jax
import numpy as np

from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import SBEED
from sbeed.agents.sbeed.agent import update, update_pi
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.sbeed.learner import Learner
from sbeed.data import replay as ring
from sbeed.data.replay import Replay
from sbeed.types import EnvSpec, Key, Transition

SPEC = EnvSpec("HalfCheetah-v5", 17, "box", 6, 1000)
Program = Callable[[SBEEDConfig, Learner, Replay, Key], tuple[Learner, dict[str, jax.Array]]]


def paper(**changes: Any) -> SBEEDConfig:
    """The paper's preset with one step of the dual; observations arrive normalised: an update is nothing else."""
    one = {"normalize_observations": False, "normalize_rewards": False, "dual_steps": 1}
    changes = {**one, **changes}
    config = with_fields(SBEED.preset("paper", SPEC), changes)
    SBEED.check(config, SPEC)
    return jax.tree.map(np.float32, config)  # traced, as the trainer has them


def walk(steps: int) -> Replay:
    """Random actions, observations normalised. Real ones, for random features of noise are far from collinear."""
    env = gymnasium.make(SPEC.name)
    env.action_space.seed(0)
    rows, (obs, _) = [], env.reset(seed=0)
    for _ in range(steps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((obs, action, reward, next_obs, terminated, terminated or truncated))
        obs = env.reset()[0] if terminated or truncated else next_obs
    env.close()
    columns = [np.array(column) for column in zip(*rows)]
    path = Transition(*(x if x.dtype == bool else x.astype(np.float32) for x in columns))
    mean, std = path.obs.mean(0), path.obs.std(0)
    path = path._replace(obs=(path.obs - mean) / std, next_obs=(path.next_obs - mean) / std)
    return jax.jit(ring.insert)(ring.empty(SPEC, steps), path)


def learner(config: SBEEDConfig, replay: Replay) -> Learner:
    key = jax.random.key(0)
    return jax.jit(partial(SBEED.prepare, spec=SPEC))(
        config, state=SBEED.init(config, SPEC, key), replay=replay, key=key
    )


def of_V_and_dual(count: int) -> Program:
    """`count` updates without the policy's step, each on a batch drawn inside the program."""

    def one(config: SBEEDConfig, state: Learner, batch: Transition, key: Key) -> tuple[Learner, dict[str, jax.Array]]:
        return update(config, SPEC, state, batch, key, with_pi=False)

    return _scanned(one, count)


def of_pi(count: int) -> Program:
    """`count` steps of the policy alone."""

    def one(config: SBEEDConfig, state: Learner, batch: Transition, key: Key) -> tuple[Learner, dict[str, jax.Array]]:
        return update_pi(config, SPEC, state, batch, key)

    return _scanned(one, count)


def _scanned(one: Callable, count: int) -> Program:
    @jax.jit
    def program(config: SBEEDConfig, state: Learner, replay: Replay, key: Key) -> tuple[Learner, dict[str, jax.Array]]:
        def step(state: Learner, k: Key) -> tuple[Learner, dict[str, jax.Array]]:
            # Drawn anew each time: with one batch for all, the compiler would move work out of the loop.
            k_batch, k_step = jax.random.split(k)
            batch = ring.sample(replay, k_batch, config.batch_size // config.length, config.length)
            return one(config, state, batch, k_step)

        return jax.lax.scan(step, state, jax.random.split(key, count))

    return program


def seconds(program: Callable, *arguments: Any) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(program(*arguments))
    return time.perf_counter() - begin


def device() -> str:
    return jax.devices()[0].device_kind
