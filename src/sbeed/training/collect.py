"""Stepping environments on the host, in this process or in workers.

Each member of a population owns its environments and a random stream, both seeded by the member alone: what it sees
does not depend on who its neighbours are or on how many workers there are.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from sbeed.envs import spaces
from sbeed.envs.base import EnvironmentFault, HostEnv
from sbeed.envs.gym import GymEnv
from sbeed.models.host import HostPolicy
from sbeed.types import EnvSpec, Transition

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
        return _transitions(rows), returns

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


class VectorActor:
    """The n environments of a Gymnasium VectorEnv as one member's source.

    A chunk holds the steps of one environment after those of another, and `last` where each one's part ends. A step on
    which an environment only resets (Gymnasium's default: the step after an episode's end) is none, so a chunk's parts
    need not be of one length; what is over is the beginning of the next chunk.
    """

    def __init__(self, envs: VectorEnv, make_for_evaluation: MakeEnv, seed: int):
        self.envs, self.seed = envs, seed
        self.name = vector_spec(envs).name
        self.mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self.evaluator = Evaluator(make_for_evaluation, seed)
        self.rng = np.random.default_rng([seed, 0])
        self.resets = 0
        self.pending: list[tuple[int, tuple]] = []  # steps not yet handed out, each with its environment's number
        self.returns: list[float] = []
        self.totals, self.resetting = np.zeros(envs.num_envs), np.zeros(envs.num_envs, bool)
        self.noise: Any = 0.0
        self.steps = 0  # that all of them have taken together
        first, _ = envs.reset(seed=self._seed())
        self.obs = self._observe(first)
        self._check("observation", self.obs)

    def _seed(self) -> int:
        self.resets += 1  # those that are ours to seed; the rest the environments make themselves
        return episode_seed(self.seed, TRAINING, self.resets)

    def _observe(self, observations: Any) -> np.ndarray:
        return np.array(spaces.encode(self.envs.single_observation_space, observations))  # never the environments' own

    def collect(self, policy: Drawing, steps: int) -> Chunk:
        while len(self.pending) < steps:
            self._step(policy)
        chosen, self.pending = self.pending[:steps], self.pending[steps:]
        chosen.sort(key=lambda step: step[0])  # stable: the steps of one environment stay in order
        chunk = _transitions([row for _, row in chosen])
        owners = np.array([owner for owner, _ in chosen])
        # The path does not go on at the border between two environments, nor from this chunk to the next.
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
            reached = obs.copy()  # `obs` is already that of the next episode
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
        self.mark()  # which says why not

    restart = resume

    def evaluate(self, policy: HostPolicy, episodes: int) -> Scores:
        return self.evaluator.play(policy, episodes)

    def close(self) -> None:
        self.evaluator.close()  # `envs` were given


class _OneOf(gymnasium.Env):
    """The spaces of one environment of a VectorEnv, for an adapter to read."""

    def __init__(self, envs: VectorEnv):
        self.envs, self.spec = envs, envs.spec
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    @property
    def unwrapped(self) -> Any:  # whose class is the name of an environment without registration
        return self.envs.unwrapped


def vector_spec(envs: VectorEnv) -> EnvSpec:
    """What an agent must know of each of the environments."""
    return GymEnv(_OneOf(envs)).spec


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


def _transitions(rows: Sequence[tuple]) -> Transition:
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


# ------------------------------------------------------------------------------------------------- all members

MakeActor = Callable[[], Actor | VectorActor]


class Collector:
    """The actors of all members: in this process, or spread over worker processes."""

    def __init__(self, makers: Sequence[MakeActor], workers: int = 0):
        """makers: one per member; for worker processes they must pickle."""
        shares = np.array_split(np.arange(len(makers)), min(workers, len(makers)) or 1)
        crew = _Worker if workers else _Crew
        self.crews = [crew([makers[i] for i in share]) for share in shares]

    def begin(self, policies: Sequence[Drawing], steps: int) -> None:
        """Let everybody collect; worker processes start at once, this one when `collected` asks for it."""
        self._ask("collect", [(policy, steps) for policy in policies])

    def collected(self) -> list[Chunk]:
        """What everybody has collected since `begin`."""
        return self._answers()

    def evaluate(self, policies: Sequence[HostPolicy], episodes: int) -> list[Scores]:
        self._ask("evaluate", [(policy, episodes) for policy in policies])
        return self._answers()

    def marks(self) -> list[Mark]:
        """Where everybody stands, between two chunks."""
        self._ask("mark", [() for crew in self.crews for _ in range(crew.size)])
        return self._answers()

    def resume(self, marks: Sequence[Mark], restart: bool = False) -> None:
        """Let everybody go on from where another collector's actor stood.   restart: in new episodes"""
        self._ask("restart" if restart else "resume", [(mark,) for mark in marks])
        self._answers()

    def _ask(self, method: str, arguments: list[tuple]) -> None:
        rest = iter(arguments)
        for crew in self.crews:
            crew.ask(method, [next(rest) for _ in range(crew.size)])

    def _answers(self) -> list[Any]:
        heard: list[Any] = []
        for answers in [crew.answers() for crew in self.crews]:  # all before any complaint: none stays in a pipe
            if isinstance(answers, Exception):
                raise answers
            heard += answers
        return heard

    def close(self) -> None:
        for crew in self.crews:
            crew.close()


class _Crew:
    """Some members' actors, in this process."""

    def __init__(self, makers: Sequence[MakeActor]):
        self.size = len(makers)
        self.actors = [make() for make in makers]

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        self._method, self._arguments = method, arguments

    def answers(self) -> list[Any]:
        # Not before it is asked for: until then the caller may set the device to work.
        return [getattr(actor, self._method)(*some) for actor, some in zip(self.actors, self._arguments)]

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


class _Worker:
    """Some members' actors, in a process of their own."""

    def __init__(self, makers: Sequence[MakeActor]):
        # Spawned, for a forked process that has jax's threads deadlocks.
        context = multiprocessing.get_context("spawn")
        self.size = len(makers)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, makers), daemon=True)
        with _environment(OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu"):  # read by numpy and jax when the worker loads them
            self.process.start()
        theirs.close()  # ours is a copy: while it is open, a dead worker looks like a slow one

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        with suppress(OSError):  # of a worker that died: there will be no answer
            self.pipe.send((method, arguments))

    def answers(self) -> list[Any] | Exception:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return RuntimeError(f"a worker process died (exit code {self.process.exitcode})")

    def close(self) -> None:
        self.pipe.close()  # which the worker notices, unless it is in the middle of something
        self.process.join(timeout=2)
        self.process.kill()
        self.process.join()


def _work(pipe: Connection, makers: Sequence[MakeActor]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # of which a whole group is told: they are the parent's to answer
        signal.signal(number, signal.SIG_IGN)
    crew: _Crew | None = None
    answers: Any
    with suppress(EOFError, OSError):  # the parent has closed its end: we are done
        while True:
            question = pipe.recv()
            try:
                crew = crew or _Crew(makers)
                crew.ask(*question)
                answers = crew.answers()
            except Exception as error:
                answers = error
            pipe.send(answers)
    if crew is not None:
        crew.close()


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables for the processes started inside."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
