"""The sources of a population's data: environments on the host, on the device, or a dataset."""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.base import Config
from sbeed.collect import rollout
from sbeed.collect.actor import Drawing, Evaluator, Exploring, Following, Scores
from sbeed.collect.sources import Source, host_source, make_host
from sbeed.collect.workers import Collector
from sbeed.data import replay as ring
from sbeed.data.dataset import Dataset
from sbeed.data.replay import Replay
from sbeed.envs import registry
from sbeed.envs.base import EnvironmentFault, JaxEnv
from sbeed.envs.task import Env, OneEnv
from sbeed.models.host import HostPolicy
from sbeed.training import compiled_steps
from sbeed.training.members import Held
from sbeed.training.population import Population
from sbeed.training.resume_state import arrays_like, marks_apart, marks_together, without
from sbeed.types import EnvSpec, Transition

Rule = Callable[[np.ndarray], Any]  # obs -> an action in [-1, 1], or an integer
Returns = list[list[float]]  # of the episodes that ended, for each member


class Advanced(NamedTuple):
    """One iteration."""

    steps: int
    returns: Returns


class Saved(NamedTuple):
    """The part of an experience that a checkpoint saves, beside its replays."""

    about: dict[str, Any]  # plain data
    arrays: dict[str, Any]  # a pytree


class Experience(abc.ABC):
    """The members' replays and the source that fills them; an iteration involves it and the population."""

    on_device: ClassVar[bool]  # where environments are stepped, if there are any
    replays: Held
    written: int = 0  # to each replay, since it last forgot
    explores: bool  # the steps of the warm-up are uniformly random
    plays: bool = True  # there is an environment to evaluate in
    replayable: bool = True  # there can be snapshots

    def __init__(self, population: Population, config: Config):
        self.population, self.config = population, config
        self.explores = True
        self.trajectories = [0] * len(population.seeds)  # finished since the last updates

    @abc.abstractmethod
    def advance(self, most: int) -> Advanced:
        """Collect at most `most` steps, insert them, and let the population learn if updates are due."""

    @abc.abstractmethod
    def evaluate(self, episodes: int) -> list[Scores]:
        """The deterministic policies' returns and lengths on episodes that training never sees."""

    @abc.abstractmethod
    def snapshot(self) -> Saved:
        """Save the state of the environments, between two iterations."""

    @abc.abstractmethod
    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        """The shapes and types of the arrays of a `Saved` with that plain data."""

    @abc.abstractmethod
    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        """Continue from a saved state.   rows: the replays' transitions, [members, ...]. restart: begin new episodes"""

    def newest(self, count: int) -> Transition:
        """The newest transitions of every replay: [members, count, ...]"""
        members = self.population.members
        if members.together:
            # Powers of two are few: no checkpoint waits for the compilation of a program.
            newest = members.run(ring.newest, self.replays, static={"count": 1 << (count - 1).bit_length()})
            rows = [jax.tree.map(lambda x: x[-count:], one) for one in members.fetch(newest)]
        else:  # on a CPU they are in our own memory: no program, and no copy of what is not asked for
            rows = [ring.newest_in_memory(replay, count) for replay in members.fetch(self.replays)]
        return jax.tree.map(lambda *some: np.stack(some), *without(self.population.diverged, rows))

    @abc.abstractmethod
    def close(self) -> None:
        """End worker processes and close the environments that were made here."""


class _Collected(Experience):
    """Experience of environments: a replay that fills, a warm-up, and rounds of steps or of whole trajectories."""

    overlaps: bool = False  # updates are on what was there before the steps: both go on at the same time

    def __init__(self, population: Population, config: Config, *, explores: bool):
        super().__init__(population, config)
        self.explores = explores
        self.replays = population.members.run(
            compiled_steps.empty_replay, population.configs, static={"spec": population.spec}
        )

    def advance(self, most: int) -> Advanced:
        population, config = self.population, self.config
        steps = min(config.steps_per_iteration, most)
        exploring = self.explores and population.step < config.warmup
        awaited = config.trajectories_per_iteration
        ready = population.step + (0 if self.overlaps else steps) >= config.warmup
        learning = ready and awaited is None
        population.step += steps
        self.written += steps
        returns = self._collect(steps, exploring, learning)
        self.trajectories = [count + len(ended) for count, ended in zip(self.trajectories, returns)]
        if awaited is not None and ready and min(self.trajectories) >= awaited:
            population.learn(self.replays)
            learning = True
        if learning:
            self.trajectories = [0] * len(population.seeds)
            if config.on_policy:
                self.replays = population.members.run(ring.forget, self.replays, donate=(0,))
                self.written = 0
        return Advanced(steps, returns)

    @abc.abstractmethod
    def _collect(self, steps: int, exploring: bool, learning: bool) -> Returns:
        """Take the steps, insert them and, if `learning`, update."""

    def _refill(self, rows: Transition, written: int) -> None:
        members, self.written = self.population.members, written
        each = [jax.tree.map(lambda x, i=i: x[i], rows) for i in range(members.count)]
        self.replays = members.hold([ring.refilled(some, written, self.config.replay_capacity) for some in each])


class OnHost(_Collected):
    """Environments that are stepped on the host, in this process or in workers."""

    on_device = False

    def __init__(
        self,
        population: Population,
        config: Config,
        source: Source,
        *,
        workers: int,
        behaviour: HostPolicy | Rule | None,
    ):
        super().__init__(population, config, explores=behaviour is None)
        self.behaviour, self.replayable = behaviour, source.replayable
        self.overlaps = config.overlap and config.trajectories_per_iteration is None
        makers = [partial(source.actor, seed) for seed in population.seeds]
        self.collector = Collector(makers, workers if source.named else 0)

    def _collect(self, steps: int, exploring: bool, learning: bool) -> Returns:
        population = self.population
        with population.timing("collect"):
            policies = population.on_host(population.agent.actor)
            self.collector.begin([self._acting(policy, exploring) for policy in policies], steps)
        if learning and self.overlaps:
            news = population.begin_learning(self.replays)
        with population.timing("collect"):
            chunks, returns = zip(*self.collector.answers())
        with population.timing("update"):
            held = population.members.hold(chunks)
            self.replays = population.members.run(ring.insert, self.replays, held, donate=(0,))
        if learning and not self.overlaps:
            news = population.begin_learning(self.replays)
        if learning:
            population.finish_learning(news)
        return list(returns)

    def _acting(self, policy: HostPolicy, exploring: bool) -> Drawing:
        if exploring:
            return Exploring(policy)
        if self.behaviour is None or isinstance(self.behaviour, HostPolicy):
            return self.behaviour or policy
        return Following(policy, self.behaviour)

    def evaluate(self, episodes: int) -> list[Scores]:
        return self.collector.evaluate(self.population.policies(), episodes)

    def snapshot(self) -> Saved:
        numbers, arrays = marks_apart(self.collector.marks())
        return Saved({"actors": numbers}, {"actors": arrays})

    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {"actors": arrays_like(about.get("actors"), self.population.spec, step, self.population.members.count)}

    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        self.collector.resume(marks_together(saved.about["actors"], saved.arrays["actors"]), restart)
        if restart:
            rows.last[:, -1:] = True
        self._refill(rows, written)

    def close(self) -> None:
        self.collector.close()


class OnDevice(_Collected):
    """Pure environments, stepped in the same program that learns."""

    on_device = True

    def __init__(self, population: Population, config: Config, env: JaxEnv, eval_env: JaxEnv):
        super().__init__(population, config, explores=True)
        members = population.members
        self._envs, self._eval_envs = (members.hold([one] * members.count) for one in (env, eval_env))
        self._rollouts = members.run(compiled_steps.begin_rollout, self._envs, population.keys)
        for i, started in enumerate(members.fetch(self._rollouts)):
            if not np.isfinite(started.obs).all():
                raise self._fault(i, 0, "the reset before step 1 of the run")

    def _collect(self, steps: int, exploring: bool, learning: bool) -> Returns:
        population, members = self.population, self.population.members
        preparing = learning and not population.prepared
        population.prepared |= preparing
        with population.timing("update"):
            population.states, self.replays, self._rollouts, metrics, finite, returns, faults = members.run(
                compiled_steps.collect_and_learn,
                *(population.configs, population.keys, population.states, self.replays, self._envs, self._rollouts),
                shared=(population.step, steps, exploring, preparing, learning),
                donate=(2, 3),
                static={"length": self.config.steps_per_iteration, **population.static},
            )
            for i, fault in enumerate(members.fetch(faults)):
                if fault >= 0 and i not in population.diverged:
                    offset, field = divmod(int(fault), len(rollout.FIELDS))
                    step = f"step {population.step - steps + 1 + offset} of the run"
                    raise self._fault(i, field, step if field else f"the reset before {step}")
            if learning:
                population.take(metrics, finite)
        return [some[np.isfinite(some)].tolist() for some in members.fetch(returns)]

    def evaluate(self, episodes: int) -> list[Scores]:
        population, members = self.population, self.population.members
        held = (population.configs, population.keys, population.states, self._eval_envs)
        scored = members.run(compiled_steps.evaluate, *held, static={"agent": population.agent, "episodes": episodes})
        returns, lengths, faults = (members.fetch(part) for part in scored)
        for i, some in enumerate(faults):
            bad = np.flatnonzero(some >= 0)
            if bad.size and i not in population.diverged:
                first = bad[0]
                where = f"step {lengths[i][first]} of episode {first + 1} of the evaluation"
                raise self._fault(i, int(some[first]), where)
        return list(zip(returns, lengths))

    def _fault(self, member: int, field: int, where: str) -> EnvironmentFault:
        """field: its number in rollout.FIELDS."""
        complaint = f"{self.population.spec.name}: {rollout.FIELDS[field]} is not finite"
        return EnvironmentFault(complaint, f" at {where} (seed {self.population.seeds[member]})")

    def snapshot(self) -> Saved:
        population = self.population
        return Saved({}, {"lives": without(population.diverged, population.members.fetch(self._rollouts))})

    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {"lives": self.population.members.fetch(self._rollouts)}

    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        self._rollouts = self.population.members.hold(saved.arrays["lives"])
        self._refill(rows, written)

    def close(self) -> None:
        pass


class FromDataset(Experience):
    """A dataset: the replay holds all of it from the first update on."""

    on_device = True

    def __init__(self, population: Population, config: Config, dataset: Dataset, eval_env: OneEnv | None):
        super().__init__(population, config)
        data = dataset.transitions()
        raw = population.on_host(population.agent.actor)[0].unsquash(data.action)  # in the form of the policy's own
        rows = jax.tree.map(jnp.asarray, data._replace(action=raw))
        replay = Replay(rows, jnp.asarray(len(dataset), jnp.int32))
        self.replays = population.members.hold([replay] * population.members.count)
        self.plays = eval_env is not None
        make = partial(make_host, eval_env) if eval_env is not None else None
        self._evaluators = [Evaluator(make, seed) for seed in population.seeds] if make is not None else []

    def advance(self, most: int) -> Advanced:
        """Make one round of updates, even if fewer were asked for."""
        self.population.step += self.config.updates_per_iteration
        self.population.learn(self.replays)
        return Advanced(self.config.updates_per_iteration, [[] for _ in self.population.seeds])

    def evaluate(self, episodes: int) -> list[Scores]:
        if not self.plays:
            raise ValueError("eval_env: a dataset cannot be played in; name an environment")
        policies = self.population.policies()
        return [evaluator.play(policy, episodes) for evaluator, policy in zip(self._evaluators, policies)]

    def snapshot(self) -> Saved:
        return Saved({}, {"lives": []})

    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {"lives": []}

    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        pass  # the replay is filled already, and no episode is under way

    def close(self) -> None:
        for evaluator in self._evaluators:
            evaluator.close()


def experience_of(
    env: Env | Dataset,
    noise: float,
    eval_env: OneEnv | None,
    *,
    workers: int,
    behaviour: HostPolicy | Rule | None,
    members: int,
) -> Callable[[Population, Config], Experience]:
    """Make the experience for an environment or a dataset; raise a ValueError for arguments that do not fit."""
    if isinstance(env, Dataset):
        return partial(FromDataset, dataset=env, eval_env=eval_env)
    pure = _pure_env(env, noise) if behaviour is None else None  # a behaviour acts on the host
    if pure is not None:
        evaluated = pure if eval_env is None else _pure_env(eval_env, 0.0)
        if evaluated is None:
            raise ValueError("eval_env: must be a JAX environment where env is one")
        return partial(OnDevice, env=pure, eval_env=evaluated)
    source = host_source(env, noise, eval_env)
    if not source.named and members > 1:
        raise ValueError(f"seeds: an environment given as an object serves one seed, got {members}")
    return partial(OnHost, source=source, workers=workers, behaviour=behaviour)


def _pure_env(env: Any, noise: float) -> JaxEnv | None:
    if isinstance(env, JaxEnv) or (isinstance(env, str) and env.startswith("jax:")):
        made = registry.make(env, noise)
        assert isinstance(made, JaxEnv)
        return made
    return None


def one_transition(spec: EnvSpec, members: int) -> Transition:
    """The shapes and types of one of every member: [members, ...]"""
    return jax.eval_shape(lambda: ring.empty(spec, members)).data
