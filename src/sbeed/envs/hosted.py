"""An adapter from a pure environment to one on the host."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from sbeed.envs.base import EnvironmentFault, JaxEnv
from sbeed.types import AnyArray, Array, EnvSpec, Key


class Hosted:
    """A HostEnv around one JaxEnv, with one dispatch per step. Seeds determine everything."""

    def __init__(self, env: JaxEnv) -> None:
        self._env, self._spec = env, env.spec

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int) -> np.ndarray:
        self._key, self._steps = jax.random.key(seed), 0
        self._state, obs = _reset(self._env, self._key)
        self._check(observation=np.asarray(obs))
        return np.asarray(obs)

    def step(self, action: np.ndarray | int) -> tuple[np.ndarray, float, bool, bool]:
        self._steps += 1
        # Arrays, for a plain number would be a constant of the program and each step a program of its own.
        self._state, *seen = _step(self._env, self._state, np.asarray(action), self._key, np.int32(self._steps))
        obs, reward, terminated, truncated = (np.asarray(x) for x in seen)
        self._check(action=np.asarray(action), reward=reward, observation=obs)
        return obs, float(reward), bool(terminated), bool(truncated)

    def close(self) -> None:
        pass

    def _check(self, **fields: np.ndarray) -> None:
        for name, numbers in fields.items():
            if not np.isfinite(numbers).all():
                raise EnvironmentFault(f"{self._spec.name}: {name} is not finite", f" at step {self._steps}")


@eqx.filter_jit
def _reset(env: JaxEnv, key: Key) -> tuple[Any, Array]:
    state = env.reset(jax.random.fold_in(key, 0))
    return state, env.observe(state)


@eqx.filter_jit
def _step(env: JaxEnv, state: Any, action: AnyArray, key: Key, t: AnyArray) -> Any:
    return env.step(state, action, jax.random.fold_in(key, t))
