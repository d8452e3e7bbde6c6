"""Collect the data of one member from a Gymnasium VectorEnv."""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from sbeed.collect.actor import Chunk, Drawing, Evaluator, MakeEnv, Mark, transitions
from sbeed.collect.episode import TRAINING, episode_seed
from sbeed.envs import spaces
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.gym import vector_spec


class VectorActor:
    """Step the n environments of a Gymnasium VectorEnv for one member.

    A chunk holds the steps of the first environment, then those of the second, and so on; `last` is true where one
    environment's part ends. A step that only resets an environment (in Gymnasium's default mode the step after an
    episode's end) is no transition, so the parts may differ in length. Steps beyond a chunk's size begin the next one.
    """

    def __init__(self, envs: VectorEnv, make_for_evaluation: MakeEnv, seed: int):
        self.envs, self.seed = envs, seed
        self.name = vector_spec(envs).name
        self.mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.evaluator = Evaluator(make_for_evaluation, seed)
        self.evaluate = self.evaluator.play
        self.rng = np.random.default_rng([seed, 0])
        self.resets = 0
        self.pending: list[tuple[int, tuple]] = []  # (environment, step) that no chunk has held yet
        self.returns: list[float] = []
        self.totals, self.resetting = np.zeros(envs.num_envs), np.zeros(envs.num_envs, bool)
        self.noise: Any = 0.0
        self.steps = 0  # of the vector
        first, _ = envs.reset(seed=self._seed())
        self.obs = self._observe(first)
        self._check("observation", self.obs)

    def _seed(self) -> int:
        self.resets += 1  # counts the resets made here; the environments make the others themselves
        return episode_seed(self.seed, TRAINING, self.resets)

    def _observe(self, observations: Any) -> np.ndarray:
        # A copy, because the environments may reuse their arrays.
        return np.array(spaces.encode(self.envs.single_observation_space, observations))

    def collect(self, policy: Drawing, steps: int) -> Chunk:
        while len(self.pending) < steps:
            self._step(policy)
        chosen, self.pending = self.pending[:steps], self.pending[steps:]
        chosen.sort(key=lambda step: step[0])  # stable: the steps of one environment stay in order
        chunk = transitions([row for _, row in chosen])
        owners = np.array([owner for owner, _ in chosen])
        # A path ends at the border between two environments, and at the end of a chunk.
        pauses = np.append(owners[1:] != owners[:-1], True)
        returns, self.returns = self.returns, []
        return chunk._replace(last=chunk.last | pauses), returns

    def _step(self, policy: Drawing) -> None:
        self.steps += 1
        raw, noise = policy.act(self.obs, self.noise, self.rng)
        actions = spaces.decode(self.envs.single_action_space, policy.squash(raw))
        try:
            observations, rewards, terminated, truncated, info = self.envs.step(actions)
        except Exception as error:
            raise EnvironmentFault(f"{self.name}: {type(error).__name__}: {error}", self._where()) from error
        obs, rewards, terminated = self._observe(observations), np.asarray(rewards), np.asarray(terminated)
        over = terminated | np.asarray(truncated)
        reached = obs
        if self.mode is AutoresetMode.SAME_STEP and over.any():
            reached = obs.copy()  # `obs` already belongs to the next episode
            reached[over] = self._observe(np.stack(info["final_obs"][over]))
        for what, numbers in (("action", actions), ("reward", rewards), ("observation", reached), ("observation", obs)):
            self._check(what, numbers)
        for i in np.flatnonzero(~self.resetting):
            row = (self.obs[i], raw[i], float(rewards[i]), reached[i], bool(terminated[i]), bool(over[i]))
            self.pending.append((int(i), row))
        self.totals += np.where(self.resetting, 0, rewards)
        self.returns += self.totals[over].tolist()
        self.totals[over] = 0
        self.noise = np.where((over | self.resetting)[:, None], np.float32(0), noise)
        if self.mode is AutoresetMode.NEXT_STEP:
            self.resetting = over
        elif self.mode is AutoresetMode.DISABLED and over.any():
            fresh, _ = self.envs.reset(seed=self._seed(), options={"reset_mask": over})
            obs = self._observe(fresh)
            self._check("observation", obs)
        self.obs = obs

    def _check(self, what: str, numbers: Any) -> None:
        if not np.isfinite(numbers).all():
            raise EnvironmentFault(f"{self.name}: {what} is not finite", self._where())

    def _where(self) -> str:
        return f" at step {self.steps} of the vector"

    def mark(self) -> Mark:
        raise ValueError(
            f"{self.name}: a vector environment resets itself, so its episodes cannot be played again: "
            "there are no checkpoints of its run"
        )

    def resume(self, mark: Mark) -> None:
        self.mark()  # raises, with the reason

    restart = resume

    def close(self) -> None:
        self.evaluator.close()  # `envs` belong to the user
