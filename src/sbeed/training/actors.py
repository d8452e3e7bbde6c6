"""One member's side of stepping environments on the host: who acts, its episodes, where it stands."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from sbeed.envs.base import EnvironmentFault, HostEnv
from sbeed.models.host import HostPolicy
from sbeed.types import Transition

MakeEnv = Callable[[], HostEnv]
Chunk = tuple[Transition, list[float]]  # transitions [steps, ...] and the returns of the episodes that ended
Scores = tuple[list[float], list[int]]  # returns and lengths of whole episodes

TRAINING, EVALUATION = 1, 2  # second word of an episode's seed; 0 is the stream of actions


def episode_seed(seed: int, purpose: int, episode: int) -> int:
    """Episodes are seeded by counter: any of them can be played again without those before it."""
    return int(np.random.SeedSequence([seed, purpose, episode]).generate_state(1)[0])


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


def fault(env: HostEnv, error: Exception, where: str) -> EnvironmentFault:
    """What an environment raised, with its name and the place as the run counts it."""
    if isinstance(error, EnvironmentFault):
        return EnvironmentFault(error.complaint, where)
    return EnvironmentFault(f"{env.spec.name}: {type(error).__name__}: {error}", where)


class Actor:
    """One member's environment, its random stream and the episode that is under way."""

    def __init__(self, make: MakeEnv, make_for_evaluation: MakeEnv, seed: int):
        self.env, self.seed = make(), seed
        self.evaluator = Evaluator(make_for_evaluation, seed)
        self.rng = np.random.default_rng([seed, 0])
        self.episodes = 0
        self._reset()

    def _reset(self) -> None:
        seed = episode_seed(self.seed, TRAINING, self.episodes)
        self.total = 0.0
        self.noise: Any = 0.0
        self.actions: list[Any] = []  # of the episode
        self.episodes += 1
        try:
            self.obs = self.env.reset(seed=seed)
        except Exception as error:
            raise fault(self.env, error, f" at step 0 of episode {self.episodes}") from error

    def collect(self, policy: Drawing, steps: int) -> Chunk:
        rows, returns = [], []
        for _ in range(steps):
            obs = self.obs
            raw, self.noise = policy.act(obs, self.noise, self.rng)
            action = policy.squash(raw)
            self.actions.append(action)
            try:
                next_obs, reward, terminated, truncated = self.env.step(action)
            except Exception as error:
                raise fault(self.env, error, f" at step {len(self.actions)} of episode {self.episodes}") from error
            last = terminated or truncated
            rows.append((obs, raw, reward, next_obs, terminated, last))
            self.obs, self.total = next_obs, self.total + reward
            if last:
                returns.append(self.total)
                self._reset()
        return transitions(rows), returns

    def mark(self) -> Mark:
        box = self.env.spec.action_kind == "box"
        shape = (self.env.spec.action_size,) if box else ()
        actions = np.array(self.actions) if self.actions else np.zeros((0, *shape), np.float32 if box else np.int64)
        noise = np.broadcast_to(np.float32(self.noise), shape)
        stream = self.rng.bit_generator.state
        random = (*stream["state"].values(), stream["has_uint32"], stream["uinteger"])
        return Mark(self.episodes, random, self.total, actions, noise, self.obs)

    def resume(self, mark: Mark) -> None:
        """Play the episode under way again, from its seed and its actions; an Unrepeatable if it is another one."""
        self._draw_from(mark.random)
        self.episodes = mark.episodes - 1
        self._reset()
        if not self._same_again(mark):
            raise Unrepeatable(
                f"{self.env.spec.name}: episode {mark.episodes} (seed {self.seed}), played again from its seed and its "
                f"{len(mark.actions)} actions, is another one: the environment is not deterministic, and the run "
                "cannot go on as if it had not stopped; with --restart-episodes (restart_episodes=True) it goes on "
                "with new episodes"
            )
        self.noise = mark.noise

    def _same_again(self, mark: Mark) -> bool:
        for action in mark.actions:
            try:
                self.obs, reward, terminated, truncated = self.env.step(action)
            except Exception:  # which it did not do then
                return False
            if terminated or truncated:
                return False
            self.actions.append(action)
            self.total += reward
        return self.total == mark.total and self.obs.tobytes() == mark.obs.tobytes()

    def restart(self, mark: Mark) -> None:
        """Give up the episode that was under way, for the one after it."""
        self._draw_from(mark.random)
        self.episodes = mark.episodes
        self._reset()

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
        returns, lengths = [], []
        for episode in range(episodes):
            total, length = self._play(self.env, policy, episode)
            returns.append(total)
            lengths.append(length)
        return returns, lengths

    def _play(self, env: HostEnv, policy: HostPolicy, episode: int) -> tuple[float, int]:
        total, length, step, over = 0.0, 0, 0, False
        try:
            obs = env.reset(seed=episode_seed(self.seed, EVALUATION, episode))
            while not over:
                step = length + 1
                obs, reward, terminated, truncated = env.step(policy.squash(policy.mode(obs)))
                total, length, over = total + reward, length + 1, terminated or truncated
        except Exception as error:
            raise fault(env, error, f" at step {step} of episode {episode + 1} of the evaluation") from error
        return total, length

    def close(self) -> None:
        if self.env is not None:
            self.env.close()


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
