"""One member's side of stepping environments on the host: who acts, its episodes, where it stands."""

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


# ------------------------------------------------------------------------------------------------- who acts


class Drawing(Protocol):
    """What acts while data are collected; a HostPolicy does, by its own draws."""

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        """Raw actions for one observation, or for [n, observation_size]."""

    def act(self, obs: np.ndarray, noise: Any, rng: np.random.Generator) -> tuple[Any, Any]:
        """The draws, and the noise that the episode's next ones are told of; 0 at its start."""
        return self.draw(obs, rng), noise

    def squash(self, action: Any) -> Any:
        """What the environment receives of them."""


class Exploring(Drawing):
    """Uniformly random actions, in the raw form of a policy's own."""

    def __init__(self, policy: HostPolicy):
        self.policy = policy

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        return _for_each(obs, lambda one: self.policy.explore(rng))

    def squash(self, action: Any) -> Any:
        return self.policy.squash(action)


class Following(Drawing):
    """A rule of the user's, obs -> action in [-1, 1] or integer, told in the raw actions of a policy."""

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
    """Where an Actor stands: all that another one needs to go on as this one would."""

    episodes: int  # begun
    random: tuple[int, ...]  # the stream of actions, in PCG64's own four numbers
    total: float  # return of the episode under way
    actions: np.ndarray  # taken in it, as the environment received them: [steps, ...]
    noise: np.ndarray
    obs: np.ndarray


class Unrepeatable(EnvironmentFault):
    """An episode, played again from its seed and its actions, was another one."""


class Actor:
    """One member's environment, its random stream and the episode that is under way."""

    def __init__(self, make: MakeEnv, make_for_evaluation: MakeEnv, seed: int):
        self.env = make()
        self.evaluator = Evaluator(make_for_evaluation, seed)
        self.rng = np.random.default_rng([seed, 0])
        self._episode = Episode(self.env, seed, TRAINING)
        self._begin(0)

    def _begin(self, index: int) -> None:
        self.noise: Any = 0.0
        self._episode.begin(index)

    def collect(self, policy: Drawing, steps: int) -> Chunk:
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
        box = self.env.spec.action_kind == "box"
        shape = (self.env.spec.action_size,) if box else ()
        taken = self._episode.actions
        actions = np.array(taken) if taken else np.zeros((0, *shape), np.float32 if box else np.int64)
        noise = np.broadcast_to(np.float32(self.noise), shape)
        stream = self.rng.bit_generator.state
        random = (*stream["state"].values(), stream["has_uint32"], stream["uinteger"])
        return Mark(self._episode.number, random, self._episode.total, actions, noise, self._episode.obs)

    def resume(self, mark: Mark) -> None:
        """Play the episode under way again, from its seed and its actions; an Unrepeatable if it is another one."""
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
        """Give up the episode that was under way, for the one after it."""
        self._draw_from(mark.random)
        self._begin(mark.episodes)

    def _draw_from(self, random: tuple[int, ...]) -> None:
        state, increment, has_half, half = random
        stream = {"state": {"state": state, "inc": increment}, "has_uint32": has_half, "uinteger": half}
        self.rng.bit_generator.state = {"bit_generator": "PCG64", **stream}

    def evaluate(self, policy: HostPolicy, episodes: int) -> Scores:
        return self.evaluator.play(policy, episodes)

    def close(self) -> None:
        self.env.close()
        self.evaluator.close()


class Evaluator:
    """Episodes that training never sees, in an environment of their own: the one under way is not disturbed."""

    def __init__(self, make: MakeEnv, seed: int):
        self.make, self.seed = make, seed
        self.env: HostEnv | None = None

    def play(self, policy: HostPolicy, episodes: int) -> Scores:
        """The deterministic policy's returns and lengths; the same episodes every time."""
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
    """What an episode asks for an action, of the deterministic policy."""

    def act(obs: np.ndarray) -> tuple[Any, Any]:
        raw = policy.mode(obs)
        return raw, policy.squash(raw)

    return act


def transitions(rows: Sequence[tuple]) -> Transition:
    """[steps, ...] of steps (obs, raw action, reward, next obs, terminated, last)."""
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
