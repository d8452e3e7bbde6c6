"""A vector of environments by Stable-Baselines3's interface (VecEnv), as one of Gymnasium's. It is not imported."""

from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from gymnasium import Space
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sbeed.envs.task import Env


@runtime_checkable
class VecEnv(Protocol):
    """The part of Stable-Baselines3's VecEnv that is used here."""

    num_envs: int
    observation_space: Any
    action_space: Any

    def reset(self) -> Any: ...

    def seed(self, seed: int | None = None) -> Any: ...

    def step_async(self, actions: Any) -> None: ...

    def step_wait(self) -> Any: ...

    def get_attr(self, attr_name: str) -> Any: ...


class FromVecEnv(VectorEnv):
    """A VecEnv as a VectorEnv: an episode's last observation is in `infos`, the next one begins in the same step."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012  Gymnasium's own form

    def __init__(self, venv: VecEnv):
        self.venv, self.num_envs = venv, venv.num_envs
        self.single_observation_space: Space = venv.observation_space
        self.single_action_space: Space = venv.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.spec = _registration(venv)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.venv.seed(seed)
        return self.venv.reset(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        self.venv.step_async(actions)
        obs, rewards, dones, infos = self.venv.step_wait()
        dones = np.asarray(dones, bool)
        truncated = dones & np.array([bool(info.get("TimeLimit.truncated")) for info in infos])
        final = np.full(self.num_envs, None, object)
        for i in np.flatnonzero(dones):
            final[i] = infos[i]["terminal_observation"]
        return obs, rewards, dones & ~truncated, truncated, {"final_obs": final}

    def close(self, **ignored: Any) -> None:
        """Nothing: the vector was given."""


def _registration(venv: VecEnv) -> EnvSpec | None:
    """How to make one of its environments again, if it is registered."""
    try:
        found = venv.get_attr("spec")[0]
    except (AttributeError, IndexError):
        return None
    return found if isinstance(found, EnvSpec) else None


def as_env(env: Env | VecEnv) -> Env:
    """The environment itself, except that a VecEnv becomes a VectorEnv."""
    vec_env = isinstance(env, VecEnv) and not isinstance(env, type | VectorEnv)
    return FromVecEnv(cast(VecEnv, env)) if vec_env else cast(Env, env)
