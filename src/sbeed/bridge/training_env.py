"""The environment that is stepped, as a callback asks for it (`training_env`, `get_env`)."""

import sys
from typing import Any

import gymnasium

from sbeed.envs.vec_env import FromVecEnv


class _Shown(gymnasium.Env):
    """The spaces of an environment that is no Gymnasium environment: a JAX one, which no callback can step."""

    def __init__(self, observation_space: gymnasium.Space, action_space: gymnasium.Space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, **ignored: Any) -> Any:
        raise ValueError("this environment shows its spaces alone: it is stepped inside the compiled program")

    def step(self, action: Any) -> Any:
        self.reset()


def training_env(trainer: Any, agent: Any) -> Any:
    """The environment that is stepped, in a DummyVecEnv where Stable-Baselines3 is loaded; None for a dataset."""
    if trainer.data is not None:
        return None
    env = trainer.env
    if isinstance(env, FromVecEnv):
        return env.venv
    if isinstance(env, gymnasium.vector.VectorEnv):
        return env
    if not isinstance(env, gymnasium.Env):
        env = _Shown(agent.observation_space, agent.action_space)
    theirs = sys.modules.get("stable_baselines3.common.vec_env")
    return env if theirs is None else theirs.DummyVecEnv([lambda: env])
