"""Experience: a population's replays and the source that fills them. Here are the base and the kind on the host."""

import abc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np

from sbeed.agents.base import Config
from sbeed.collect.actor import Drawing, Exploring, Following, Scores
from sbeed.collect.sources import Source
from sbeed.collect.workers import collector
from sbeed.data import replay as ring
from sbeed.models.host import HostPolicy
from sbeed.training import compiled_steps
from sbeed.training.members import Held
from sbeed.training.population import Population
from sbeed.training.resume_state import arrays_like, marks_apart, marks_together, without
from sbeed.types import EnvSpec, Transition

Rule = Callable[[np.ndarray], Any]  # obs -> an action in [-1, 1], or an integer
Returns = list[list[float]]  # of the episodes that ended, for each member


class Advanced(NamedTuple):
    """The result of one iteration."""

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


class Collected(Experience):
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


class OnHost(Collected):
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
        self.collector = collector(makers, workers if source.named else 0)

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


def one_transition(spec: EnvSpec, members: int) -> Transition:
    """The shapes and types of one of every member: [members, ...]"""
    return jax.eval_shape(lambda: ring.empty(spec, members)).data
