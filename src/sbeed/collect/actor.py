"""Step the environments of one member on the host: policies that act, episodes, and the state to resume from."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from sbeed.collect.episode import EVALUATION, TRAINING, Episode, HostStep
from sbeed.envs.base import EnvironmentFault, HostEnv
from sbeed.models.host import HostPolicy
from sbeed.types import Transition

MakeEnv = Callable[[], HostEnv]
Chunk = tuple[Transition, list[float]]  # transitions [steps, ...] and the returns of the episodes that ended
Scores = tuple[list[float], list[int]]  # returns and lengths of whole episodes


# ------------------------------------------------------------------------------------------------- policies that act


class Drawing(Protocol):
    """Draw actions while data are collected. A HostPolicy is one."""

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        """Draw raw actions for one observation, or for [n, observation_size]."""

    def act(self, obs: np.ndarray, noise: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """Draw raw actions; also return the noise to pass to the next call in the episode. It is 0 at the start."""
        return self.draw(obs, rng), noise

    def squash(self, action: Any) -> Any:
        """The actions that the environment receives for raw actions."""


class Exploring(Drawing):
    """Draw uniformly random actions, in the raw form of a policy."""

    def __init__(self, policy: HostPolicy):
        self.policy = policy

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        return _for_each(obs, lambda one: self.policy.explore(rng))

    def squash(self, action: Any) -> Any:
        return self.policy.squash(action)


class Following(Drawing):
    """Act by a function of the user, obs -> action in [-1, 1] or integer, converted to the raw actions of a policy."""

    def __init__(self, policy: HostPolicy, rule: Callable[[np.ndarray], Any]):
        self.policy, self.rule = policy, rule

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        return self.policy.unsquash(_for_each(obs, self.rule))

    def squash(self, action: Any) -> Any:
        return self.policy.squash(action)


def _for_each(obs: np.ndarray, act: Callable[[np.ndarray], Any]) -> Any:
    return act(obs) if obs.ndim == 1 else np.stack([act(one) for one in obs])


# ------------------------------------------------------------------------------------------------- one member


class Mark(NamedTuple):
    """The state of an Actor; another Actor that resumes from it continues exactly as this one would."""

    episodes: int  # begun
    random: tuple[int, ...]  # the stream of actions, in PCG64's own four numbers
    total: float  # return of the episode under way
    actions: np.ndarray  # taken in it, as the environment received them: [steps, ...]
    noise: np.ndarray
    obs: np.ndarray


class Unrepeatable(EnvironmentFault):
    """Raised if an episode that is replayed from its seed and its actions differs from the first time."""


class Actor:
    """The environment of one member, its random stream and its unfinished episode."""

    def __init__(self, make: MakeEnv, make_for_evaluation: MakeEnv, seed: int):
        self.env = make()
        self.evaluator = Evaluator(make_for_evaluation, seed)
        self.evaluate = self.evaluator.play
        self.rng = np.random.default_rng([seed, 0])
        self._episode = Episode(self.env, seed, TRAINING)
        self._begin(0)

    def _begin(self, index: int) -> None:
        self.noise: Any = 0.0
        self._episode.begin(index)

    def collect(self, policy: Drawing, steps: int) -> Chunk:
        """Take steps; an episode that ends is followed by the next one."""

        def act(obs: np.ndarray) -> tuple[Any, Any]:
            raw, self.noise = policy.act(obs, self.noise, self.rng)
            return raw, policy.squash(raw)

        rows: list[HostStep] = []
        returns = []
        while len(rows) < steps:
            rows += islice(self._episode.play(act), steps - len(rows))
            if rows[-1].last:
                returns.append(self._episode.total)
                self._begin(self._episode.number)
        return transitions([(s.obs, s.raw, s.reward, s.next_obs, s.terminated, s.last) for s in rows]), returns

    def mark(self) -> Mark:
        """Return the state to resume from."""
        box = self.env.spec.action_kind == "box"
        shape = (self.env.spec.action_size,) if box else ()
        taken = self._episode.actions
        actions = np.array(taken) if taken else np.zeros((0, *shape), np.float32 if box else np.int64)
        noise = np.broadcast_to(np.float32(self.noise), shape)
        stream = self.rng.bit_generator.state
        random = (*stream["state"].values(), stream["has_uint32"], stream["uinteger"])
        return Mark(self._episode.number, random, self._episode.total, actions, noise, self._episode.obs)

    def resume(self, mark: Mark) -> None:
        """Replay the unfinished episode from its seed and its actions; raise Unrepeatable if it differs."""
        self._draw_from(mark.random)
        self._begin(mark.episodes - 1)
        if not self._same_again(mark):
            raise Unrepeatable(
                f"{self.env.spec.name}: episode {mark.episodes} (seed {self._episode.seed}), played again from its "
                f"seed and its {len(mark.actions)} actions, is another one: the environment is not deterministic, and "
                "the run cannot go on as if it had not stopped; with --restart-episodes (restart_episodes=True) it "
                "goes on with new episodes"
            )
        self.noise = mark.noise

    def _same_again(self, mark: Mark) -> bool:
        actions = iter(mark.actions)
        again = self._episode.play(lambda obs: (None, next(actions)))
        try:
            if any(step.last for step in islice(again, len(mark.actions))):
                return False
        except EnvironmentFault:  # which it did not raise then
            return False
        return self._episode.total == mark.total and self._episode.obs.tobytes() == mark.obs.tobytes()

    def restart(self, mark: Mark) -> None:
        """Drop the unfinished episode and begin the next one."""
        self._draw_from(mark.random)
        self._begin(mark.episodes)

    def _draw_from(self, random: tuple[int, ...]) -> None:
        state, increment, has_half, half = random
        stream = {"state": {"state": state, "inc": increment}, "has_uint32": has_half, "uinteger": half}
        self.rng.bit_generator.state = {"bit_generator": "PCG64", **stream}

    def close(self) -> None:
        self.env.close()
        self.evaluator.close()


class Evaluator:
    """Play evaluation episodes in an environment of their own, so that the training episode is not disturbed."""

    def __init__(self, make: MakeEnv, seed: int):
        self.make, self.seed = make, seed
        self.env: HostEnv | None = None

    def play(self, policy: HostPolicy, episodes: int) -> Scores:
        """Return the returns and lengths of the deterministic policy; every call plays the same episodes."""
        if self.env is None:
            self.env = self.make()
        episode = Episode(self.env, self.seed, EVALUATION, " of the evaluation")
        returns, lengths = [], []
        for index in range(episodes):
            episode.begin(index)
            for _ in episode.play(greedily(policy)):
                pass
            returns.append(episode.total)
            lengths.append(len(episode.actions))
        return returns, lengths

    def close(self) -> None:
        if self.env is not None:
            self.env.close()


def greedily(policy: HostPolicy) -> Callable[[np.ndarray], tuple[Any, Any]]:
    """The `act` of `Episode.play` that takes the actions of the deterministic policy."""

    def act(obs: np.ndarray) -> tuple[Any, Any]:
        raw = policy.mode(obs)
        return raw, policy.squash(raw)

    return act


def transitions(rows: Sequence[tuple]) -> Transition:
    """Stack steps (obs, raw action, reward, next obs, terminated, last) to a Transition of arrays [steps, ...]."""
    obs, raw, reward, next_obs, terminated, last = zip(*rows)
    action = np.array(raw)
    action = action.astype(np.float32 if np.issubdtype(action.dtype, np.floating) else np.int32)
    columns = (
        np.stack(obs),
        action,
        np.array(reward, np.float32),
        np.stack(next_obs),
        np.array(terminated),
        np.array(last),
    )
    return Transition(*columns)  # type: ignore[arg-type]
