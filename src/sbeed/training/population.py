"""M members' states on the device, the compiled programs that update them, and the policies that act."""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import jax
import numpy as np

from sbeed.agents.base import Agent, Config, State
from sbeed.models.host import HostPolicy
from sbeed.models.policies import Policy
from sbeed.training import compiled_steps
from sbeed.training.members import Held, Members
from sbeed.types import Array, EnvSpec


class Diverged(FloatingPointError):  # noqa: N818  a run diverges; the code that says so is right
    """A number of the update is not finite."""

    def __init__(self, step: int, name: str, seed: int):
        super().__init__(f"{name} is not finite after {step} steps (seed {seed}): the run diverged")
        self.step, self.name, self.seed = step, name, seed


class Population:
    """The members' configs, keys and states, and their updates on whatever replays they are given."""

    step: int  # environment steps that each member has taken; updates, if it learns from a dataset
    prepared: bool  # the agent has seen its first data, and learns
    metrics: dict[str, np.ndarray]  # of the last iteration: {name: [members]}; empty before the first update
    diverged: dict[int, Diverged]  # members that are lost while others go on: their last finite policies act
    seconds: dict[str, float]  # spent on "collect", "update", "evaluate"; a JAX environment collects inside "update"

    def __init__(self, agent: Agent, configs: Sequence[Config], spec: EnvSpec, seeds: Sequence[int]):
        """configs: one for each seed."""
        self.agent, self.spec, self.seeds = agent, spec, tuple(seeds)
        self.members = Members(len(seeds))
        self.static = {"agent": agent, "spec": spec}
        self.configs = self.members.hold([jax.tree.map(np.float32, one) for one in configs])
        self.keys = self.members.hold([jax.random.key(seed) for seed in seeds])
        self.states: Held = self.members.run(compiled_steps.first_state, self.configs, self.keys, static=self.static)
        self.step, self.prepared, self.metrics, self.diverged = 0, False, {}, {}
        self.seconds = defaultdict(float)
        self._policies: dict[Callable, list[HostPolicy]] = {}  # as last fetched
        self._fresh: set[Callable] = set()  # those that no update has overtaken

    # --------------------------------------------------------------------------------------------- learning

    def learn(self, replays: Held) -> None:
        """Make an iteration's updates; before the first ones the agent prepares."""
        news = self.begin_learning(replays)
        self.finish_learning(news)

    def begin_learning(self, replays: Held) -> tuple[Held, Held]:
        """Start an iteration's updates on the device; `finish_learning` waits for them."""
        run = self.members.run
        with self.timing("update"):
            held = (self.configs, self.keys, self.states, replays)
            if not self.prepared:
                self.states = run(compiled_steps.prepare, *held, shared=(self.step,), static=self.static)
                self.prepared = True
                held = (self.configs, self.keys, self.states, replays)
            self.states, *news = run(compiled_steps.learn, *held, shared=(self.step,), donate=(2,), static=self.static)
        metrics, finite = news
        return metrics, finite

    def finish_learning(self, news: tuple[Held, Held]) -> None:
        with self.timing("update"):
            self.take(*news)

    def take(self, metrics: Held, finite: Held) -> None:
        """Take in the iteration's metrics; a member without finite ones has diverged; the last one ends the run."""
        self._fresh.clear()
        each, healthy = self.members.fetch(metrics), self.members.fetch(finite)
        self.metrics = {name: np.array([one[name] for one in each]) for name in each[0]}
        for i, seed in enumerate(self.seeds):
            bad = [name for name, values in self.metrics.items() if not np.isfinite(values[i])]
            bad += [] if healthy[i] else ["policy"]
            if bad and i not in self.diverged:
                self.diverged[i] = Diverged(self.step, bad[0], seed)
                if len(self.diverged) == len(self.seeds):
                    raise self.diverged[i]
                warnings.warn(f"{self.diverged[i]}; the other members continue", RuntimeWarning, stacklevel=4)

    @property
    def iteration(self) -> int:
        """Rounds of updates that the members have made, those before a load included."""
        return int(self.members.fetch(self.members.run(_iteration, self.states))[0])

    def put(self, states: Sequence[State]) -> None:
        """Replace the states."""
        self.states = self.members.hold(states)
        self._fresh.clear()

    def restore(
        self,
        states: Sequence[State],
        step: int,
        prepared: bool,
        metrics: dict[str, np.ndarray],
        diverged: dict[int, Diverged],
        seconds: dict[str, float],
    ) -> None:
        """Take over the state of another population of the same run."""
        self.put(states)
        self._policies.clear()
        self.step, self.prepared, self.metrics, self.diverged = step, prepared, metrics, diverged
        self.seconds = defaultdict(float, seconds)

    # --------------------------------------------------------------------------------------------- acting

    def policies(self) -> list[HostPolicy]:
        """Each member's deployed policy, the one that is evaluated and predicts, on the host."""
        return self.on_host(self.agent.deployed)

    def on_host(self, part: Callable[[Config, State], Policy]) -> list[HostPolicy]:
        """agent.actor or agent.deployed of every member; fetched once per iteration."""
        if part not in self._fresh:
            policies = self.members.fetch(self.members.run(part, self.configs, self.states))
            # The actor is fetched before every update; the deployed one perhaps never before a member is lost.
            known = self._policies.get(part) or self._policies.get(self.agent.actor)
            self._policies[part] = [
                known[i] if known and i in self.diverged else policy.on_host() for i, policy in enumerate(policies)
            ]
            self._fresh.add(part)
        return list(self._policies[part])

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begin


def _iteration(state: State) -> Array:
    return state.iteration
