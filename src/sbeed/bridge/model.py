"""The agent as a callback of Stable-Baselines3 sees it in `self.model`, one environment step at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from sbeed.bridge.training_env import training_env
from sbeed.envs import spaces
from sbeed.training.trainer import Trainer
from sbeed.types import AnyArray

Locals = dict[str, Any]


class Model:
    """An agent whose `num_timesteps` is that of the step which callbacks are told of.

    All else is the agent's own: what it is at the end of the iteration that the step was part of.
    """

    n_envs: int  # environments in the vector, each call is about one step of all of them; else 1

    def __init__(self, agent: Any, trainer: Trainer):
        self.agent, self.trainer = agent, trainer
        self._env = training_env(trainer, agent)
        self.n_envs = trainer.env.num_envs if isinstance(trainer.env, VectorEnv) else 1
        self.num_timesteps = agent.num_timesteps
        self._episode: tuple[float, int] | None = None  # return and length so far, if its start was seen

    def __getattr__(self, name: str) -> Any:
        if name == "agent":  # not set yet: a copy or a pickle is being made
            raise AttributeError(name)
        return getattr(self.agent, name)

    def get_env(self) -> Any:
        """The environment that is stepped; None for a dataset."""
        return self._env

    def get_vec_normalize_env(self) -> None:
        """None: observations are normalised by the agent itself."""

    def save(self, path: str | Path, *ignored: Any, **ignored_too: Any) -> None:
        """Write the agent to that directory, without the ending .zip that Stable-Baselines3 gives its files."""
        self.agent.save(Path(path).with_suffix("") if str(path).endswith(".zip") else Path(path))

    def dump_logs(self, *ignored: Any) -> None:
        self.agent.logger.dump(self.num_timesteps)

    def begin(self) -> None:
        """Stand where the agent stands."""
        self.num_timesteps = self.agent.num_timesteps
        self._episode = (0.0, 0) if self.trainer.step == 0 else None
        self._over = self.trainer.episodes[0]
        self._left: list[Locals] = []
        self.trainer.keep_steps(True)

    def steps(self) -> Iterator[Locals]:
        """The steps of the last iteration: `num_timesteps` counts them, and their locals are yielded."""
        rows = self._rows()
        if rows is None:  # updates from a dataset
            while self.num_timesteps < self.agent.num_timesteps:
                self.num_timesteps += 1
                yield {}
            return
        self._left += rows
        while len(self._left) >= self.n_envs:
            some, self._left = self._left[: self.n_envs], self._left[self.n_envs :]
            self.num_timesteps += self.n_envs
            yield {name: _column([one[name] for one in some]) for name in some[0]}

    def _rows(self) -> list[Locals] | None:
        """One dict for each step of the last iteration."""
        if self.trainer.latest is None:
            return None
        obs, raw, rewards, next_obs, terminated, last = (part[0] for part in self.trainer.latest)
        squash = self.trainer.policies()[0].squash
        dones = self._dones(last)
        return [
            {
                "obs": obs[i],
                "actions": spaces.decode(self.agent.action_space, squash(raw[i])),
                "rewards": rewards[i],
                "new_obs": next_obs[i],
                "dones": dones[i],
                "infos": self._info(float(rewards[i]), next_obs[i], bool(dones[i]), bool(terminated[i])),
            }
            for i in range(len(rewards))
        ]

    def _dones(self, last: AnyArray) -> AnyArray:
        """True where an episode ended.

        Of a vector's environments `last` also marks where the steps of one end in the chunk: there the first so many
        of these places stand for the episodes that ended.
        """
        if self.n_envs == 1:
            return last
        ended = self.trainer.episodes[0] - self._over
        at = np.flatnonzero(last)[:ended]
        self._over += len(at)
        dones = np.zeros(len(last), bool)
        dones[at] = True
        return dones

    def _info(self, reward: float, reached: Any, done: bool, terminated: bool) -> dict[str, Any]:
        info: dict[str, Any] = {}
        if self._episode is not None:
            total, length = self._episode
            self._episode = (total + reward, length + 1)
        if done:
            if self._episode is not None and self.n_envs == 1:
                info["episode"] = {"r": self._episode[0], "l": self._episode[1]}
            info |= {"terminal_observation": reached, "TimeLimit.truncated": not terminated}
            self._episode = (0.0, 0)
        return info


def _column(values: list[Any]) -> Any:
    return values if isinstance(values[0], dict) else np.array(values)
