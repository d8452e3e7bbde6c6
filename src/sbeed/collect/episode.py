"""Play episodes on the host: the only loop that resets and steps an environment, for training, evaluation and films."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sbeed.envs.base import EnvironmentFault, HostEnv

TRAINING, EVALUATION = 1, 2  # second word of an episode's seed; 0 is the stream of actions


def episode_seed(seed: int, purpose: int, episode: int) -> int:
    """The seed of an episode. It depends on a counter alone, so any episode can be replayed without those before it."""
    return int(np.random.SeedSequence([seed, purpose, episode]).generate_state(1)[0])


class HostStep(NamedTuple):
    """One step of an episode."""

    obs: np.ndarray
    raw: Any  # the action as the policy drew it
    sent: Any  # as the environment received it
    reward: float
    next_obs: np.ndarray
    terminated: bool
    last: bool


class Episode:
    """An environment and its current episode.

    An EnvironmentFault names the episode and the step, both counted from 1; step 0 is the reset.
    of: text that completes the place, such as " of the evaluation"
    """

    number: int  # of this episode, from 1
    obs: np.ndarray
    total: float  # return so far
    actions: list[Any]  # taken in it, as the environment received them

    def __init__(self, env: HostEnv, seed: int, purpose: int, of: str = ""):
        self.env, self.seed, self._purpose, self._of = env, seed, purpose, of
        self.number = 0

    def begin(self, index: int) -> None:
        """Reset the environment for episode `index`, counted from 0."""
        self.number, self.total, self.actions = index + 1, 0.0, []
        try:
            self.obs = self.env.reset(seed=episode_seed(self.seed, self._purpose, index))
        except Exception as error:
            raise self._fault(error) from error

    def play(self, act: Callable[[np.ndarray], tuple[Any, Any]]) -> Iterator[HostStep]:
        """Yield the steps up to the end of the episode; a later call continues where an earlier one was left.

        act: obs -> (raw action, action that the environment receives)
        """
        last = False
        while not last:
            obs = self.obs
            raw, sent = act(obs)
            self.actions.append(sent)
            try:
                self.obs, reward, terminated, truncated = self.env.step(sent)
            except Exception as error:
                raise self._fault(error) from error
            last, self.total = terminated or truncated, self.total + reward
            yield HostStep(obs, raw, sent, reward, self.obs, terminated, last)

    def _fault(self, error: Exception) -> EnvironmentFault:
        where = f" at step {len(self.actions)} of episode {self.number}{self._of}"
        if isinstance(error, EnvironmentFault):
            return EnvironmentFault(error.complaint, where)
        return EnvironmentFault(f"{self.env.spec.name}: {type(error).__name__}: {error}", where)
