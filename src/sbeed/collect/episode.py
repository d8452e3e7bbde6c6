"""Playing an episode on the host: the one loop that resets and steps an environment, whoever acts in it and why."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from sbeed.envs.base import EnvironmentFault, HostEnv

TRAINING, EVALUATION = 1, 2  # second word of an episode's seed; 0 is the stream of actions


def episode_seed(seed: int, purpose: int, episode: int) -> int:
    """Episodes are seeded by counter: any of them can be played again without those before it."""
    return int(np.random.SeedSequence([seed, purpose, episode]).generate_state(1)[0])


class HostStep(NamedTuple):
    """One step, as it was taken."""

    obs: np.ndarray
    raw: Any  # the action as the policy drew it
    sent: Any  # as the environment received it
    reward: float
    next_obs: np.ndarray
    terminated: bool
    last: bool


class Episode:
    """An environment and the episode that is under way in it.

    Faults of the environment say where they came, as the run counts its episodes and their steps, both from 1; step 0
    is the reset.   of: what else to say of the place, such as " of the evaluation"
    """

    number: int  # of this episode, from 1
    obs: np.ndarray
    total: float  # return so far
    actions: list[Any]  # taken in it, as the environment received them

    def __init__(self, env: HostEnv, seed: int, purpose: int, of: str = ""):
        self.env, self.seed, self._purpose, self._of = env, seed, purpose, of
        self.number = 0

    def begin(self, index: int) -> None:
        """Begin the episode that has so many before it."""
        self.number, self.total, self.actions = index + 1, 0.0, []
        try:
            self.obs = self.env.reset(seed=episode_seed(self.seed, self._purpose, index))
        except Exception as error:
            raise self._fault(error) from error

    def play(self, act: Callable[[np.ndarray], tuple[Any, Any]]) -> Iterator[HostStep]:
        """The steps from where the episode stands to its end; whoever stops asking may go on later.

        act: obs -> the action as it was drawn, and as the environment receives it.
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
