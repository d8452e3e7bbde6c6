"""One or many agents that learn in lockstep: collect, insert, update, evaluate."""

import time
import warnings
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.base import Agent, Config, State
from sbeed.agents.knobs import with_fields
from sbeed.collect import rollout
from sbeed.collect.actor import Drawing, Evaluator, Exploring, Following
from sbeed.collect.sources import host_source, make_host
from sbeed.collect.workers import Collector
from sbeed.data import replay as ring
from sbeed.data.dataset import Dataset
from sbeed.data.replay import Replay
from sbeed.envs import registry
from sbeed.envs.base import EnvironmentFault, JaxEnv
from sbeed.envs.task import Env, OneEnv, check_fits, spec_of
from sbeed.models.host import HostPolicy
from sbeed.models.policies import Policy
from sbeed.storage.checkpoints import Checkpoint, Snapshot
from sbeed.storage.datasets import fingerprint
from sbeed.storage.tensors import DamagedModel
from sbeed.training import compiled_steps
from sbeed.training.compile_cache import keep_compiled_programs
from sbeed.training.members import Members
from sbeed.training.resume_state import (
    Standing,
    arrays_like,
    check_same_run,
    marks_apart,
    marks_together,
    plain,
    read_standing,
    without,
)
from sbeed.types import EnvSpec, Transition

Variant = Mapping[str, float]  # the float fields in which one member differs
Rule = Callable[[np.ndarray], Any]  # obs -> an action in [-1, 1], or an integer


class Evaluation(NamedTuple):
    """What the deterministic policies scored on episodes that training never sees.   Both [members, episodes]"""

    returns: np.ndarray
    lengths: np.ndarray


class Diverged(FloatingPointError):  # noqa: N818  a run diverges; the code that says so is right
    """A number of the update is not finite."""

    def __init__(self, step: int, name: str, seed: int):
        super().__init__(f"{name} is not finite after {step} steps (seed {seed}): the run diverged")
        self.step, self.name, self.seed = step, name, seed


class Trainer:
    """M members in lockstep, one per seed; they may differ in float fields of the config.

    Each member is the run that it would be alone: its environment, its random streams and its batches depend on its
    seed and its fields only. But for rounds of whole trajectories: all wait for the member whose take longest.
    """

    step: int  # environment steps that each member has taken; updates, if it learns from a dataset
    episodes: list[int]  # that each member has finished
    metrics: dict[str, np.ndarray]  # of the last iteration: {name: [members]}; empty before the first update
    recent: list[deque[float]]  # each member's last 20 training returns
    seconds: dict[str, float]  # spent on "collect", "update", "evaluate"; a JAX environment collects inside "update"
    diverged: dict[int, Diverged]  # members that are lost while others go on: their last finite policies act
    replayable: bool  # there can be snapshots: a vector environment, given as an object, cannot be brought back
    by_names: bool  # the names of agent and environment, the config and the seeds are enough to make it again
    plays: bool  # there is an environment to evaluate in
    data: str | None  # the SHA-256 of the dataset that it learns from, if it does

    def __init__(
        self,
        agent: Agent,
        env: Env | Dataset,
        config: Config,
        *,
        seeds: Sequence[int],
        variants: Sequence[Variant] | None = None,
        workers: int = 0,
        noise: float = 0.0,
        eval_env: OneEnv | None = None,
        behaviour: HostPolicy | Rule | None = None,
    ):
        """env: a name, a JaxEnv, one Gymnasium environment or VectorEnv, which serves one seed alone, or a Dataset.

        From a Dataset nothing is collected: all of it is the replay from the first update on, and stays. It takes no
        environment; `eval_env`, if there is one, is where `evaluate` plays.

        variants: for each member the float fields in which it differs from `config`. workers: processes that step
        environments given by name; 0 steps them in this one. behaviour: who acts while data are collected: None for
        the current policy, a HostPolicy of the same kind for a fixed one, or a function obs -> action in [-1, 1] (an
        integer if discrete).
        """
        self.agent, self.config, self.behaviour, self._noise = agent, config, behaviour, noise
        self.seeds = tuple(int(seed) for seed in seeds)
        self.variants = tuple(variants) if variants is not None else ({},) * len(self.seeds)
        if not self.seeds:
            raise ValueError("seeds: there must be at least one")
        if len(self.variants) != len(self.seeds):
            raise ValueError(f"variants: one for each of {len(self.seeds)} seeds, got {len(self.variants)}")
        for seed in self.seeds:
            if not 0 <= seed < 2**32:
                raise ValueError(f"seed: must lie in [0, 2^32), got {seed}")
        if workers < 0:
            raise ValueError(f"workers: must not be negative, got {workers}")

        dataset = env if isinstance(env, Dataset) else None
        pure = _pure_env(env, noise) if behaviour is None else None  # a behaviour acts on the host
        source = host_source(env, noise, eval_env) if pure is None and not isinstance(env, Dataset) else None
        self.spec = env.spec if isinstance(env, Dataset) else spec_of(env, noise)
        self.data = None if dataset is None else fingerprint(dataset)
        self.plays = dataset is None or eval_env is not None
        self.replayable = source is None or source.replayable
        if dataset is not None:
            self.config = config = on_dataset(config, len(dataset))
            if eval_env is not None:
                check_fits("eval_env", spec_of(eval_env), self.spec)
        plain_members = self.variants == ({},) * len(self.seeds)
        named = isinstance(env, str) and eval_env is None
        if dataset is not None:
            named = isinstance(eval_env, str | None)
        self.by_names = named and behaviour is None and plain_members
        if source is not None and not source.named and len(self.seeds) > 1:
            raise ValueError(f"seeds: an environment given as an object serves one seed, got {len(self.seeds)}")
        configs = member_configs(config, self.variants)
        for one in configs:
            agent.check(one, self.spec)

        keep_compiled_programs()
        self._members = Members(len(self.seeds))
        self._static = {"agent": agent, "spec": self.spec}
        if dataset is not None:  # of which nothing new comes between updates
            configs = [replace(one, steps_per_iteration=0) for one in configs]
        self._configs = self._members.hold([jax.tree.map(np.float32, one) for one in configs])
        self._keys = self._members.hold([jax.random.key(seed) for seed in self.seeds])
        self._states, self._replays = self._members.run(
            compiled_steps.begin, self._configs, self._keys, static=self._static
        )
        self._written = 0  # to each replay, since it last forgot
        self._prepared, self._explores = False, behaviour is None
        self._policies: dict[Callable, list[HostPolicy]] = {}  # as last fetched
        self._fresh: set[Callable] = set()  # those that no update has overtaken

        self.step, self.metrics, self.diverged = 0, {}, {}
        self.episodes = [0] * len(self.seeds)
        self._trajectories = [0] * len(self.seeds)  # finished since the last updates
        self.recent = [deque(maxlen=20) for _ in self.seeds]
        self.seconds = defaultdict(float)

        self._collector: Collector | None = None
        self._evaluators: list[Evaluator] = []
        if dataset is not None:
            self._replays = self._members.hold([self._filled(dataset)] * len(self.seeds))
            self.recent = [deque(dataset.returns, maxlen=20) for _ in self.seeds]
            if eval_env is not None:
                self._evaluators = [Evaluator(partial(make_host, eval_env), seed) for seed in self.seeds]
        elif source is not None:
            actors = [partial(source.actor, seed) for seed in self.seeds]
            self._collector = Collector(actors, workers if source.named else 0)
        else:
            evaluated = pure if eval_env is None else _pure_env(eval_env, 0.0)
            if evaluated is None:
                raise ValueError("eval_env: must be a JAX environment where env is one")
            self._envs, self._eval_envs = (self._members.hold([e] * len(self.seeds)) for e in (pure, evaluated))
            (self._lives,) = self._members.run(compiled_steps.be_born, self._envs, self._keys)
            for i, life in enumerate(self._members.fetch(self._lives)):
                if not np.isfinite(life.obs).all():
                    raise self._fault(i, 0, "the reset before step 1 of the run")

    # --------------------------------------------------------------------------------------------- learning

    def advance(self, most: int) -> int:
        """One iteration: collect min(steps_per_iteration, most) steps, insert, update; returns the steps taken.

        The warm-up's steps are uniformly random. When its data are there the agent prepares, once, and learns. With
        `overlap`, on the host, updates are on what was there before these steps: both go on at the same time. With
        `trajectories_per_iteration` updates wait until every member has finished so many, and follow at once, without
        overlap; with `on_policy` the data are forgotten after them. From a dataset it is a round of updates, which are
        the steps, however few were asked for.
        """
        if self.data is not None:
            self.step += self.config.updates_per_iteration
            self._learn_now()
            return self.config.updates_per_iteration
        steps = min(self.config.steps_per_iteration, most)
        exploring = self._explores and self.step < self.config.warmup
        awaited = self.config.trajectories_per_iteration
        overlap = self.config.overlap and self._collector is not None and awaited is None
        ready = self.step + (0 if overlap else steps) >= self.config.warmup
        learning = ready and awaited is None
        self.step += steps
        self._written += steps
        if self._collector is None:
            returns = self._advance_on_device(steps, exploring, learning)
        else:
            returns = self._advance_on_host(self._collector, steps, exploring, learning, overlap)
        for i, ended in enumerate(returns):
            self.episodes[i] += len(ended)
            self.recent[i].extend(ended)
            self._trajectories[i] += len(ended)
        if awaited is not None and ready and min(self._trajectories) >= awaited:
            self._learn_now()
            learning = True
        if learning:
            self._trajectories = [0] * len(self.seeds)
            if self.config.on_policy:
                (self._replays,) = self._members.run(compiled_steps.forget, self._replays, donate=(0,))
                self._written = 0
        return steps

    def _advance_on_host(
        self, collector: Collector, steps: int, exploring: bool, learning: bool, overlap: bool
    ) -> list[list[float]]:
        with self._timing("collect"):
            collector.begin([self._acting(policy, exploring) for policy in self._on_host(self.agent.actor)], steps)
        if learning and overlap:
            news = self._learn()
        with self._timing("collect"):
            chunks, returns = zip(*collector.collected())
        with self._timing("update"):
            (self._replays,) = self._members.run(
                compiled_steps.insert, self._replays, self._members.hold(chunks), donate=(0,)
            )
        if learning and not overlap:
            news = self._learn()
        if learning:
            with self._timing("update"):
                self._take(*news)
        return list(returns)

    def _learn_now(self) -> None:
        news = self._learn()
        with self._timing("update"):
            self._take(*news)

    def _filled(self, dataset: Dataset) -> Replay:
        """The replay that holds it all, with actions in the raw form of the policy's own."""
        data = dataset.transitions()
        raw = self._on_host(self.agent.actor)[0].unsquash(data.action)
        rows = jax.tree.map(jnp.asarray, data._replace(action=raw))
        return Replay(rows, jnp.asarray(len(dataset), jnp.int32))

    def _learn(self) -> list[Any]:
        """Sets the device to work on an iteration's updates; `_take` waits for them."""
        run, static = self._members.run, self._static
        with self._timing("update"):
            if not self._prepared:
                held = (self._configs, self._keys, self._states, self._replays)
                (self._states,) = run(compiled_steps.prepare, *held, shared=(self.step,), static=static)
                self._prepared = True
            held = (self._configs, self._keys, self._states, self._replays)
            self._states, *news = run(compiled_steps.learn, *held, shared=(self.step,), donate=(2,), static=static)
        return news

    def _advance_on_device(self, steps: int, exploring: bool, learning: bool) -> list[list[float]]:
        preparing = learning and not self._prepared
        self._prepared |= preparing
        with self._timing("update"):
            self._states, self._replays, self._lives, metrics, finite, returns, faults = self._members.run(
                compiled_steps.live,
                *(self._configs, self._keys, self._states, self._replays, self._envs, self._lives),
                shared=(self.step, steps, exploring, preparing, learning),
                donate=(2, 3),
                static={"length": self.config.steps_per_iteration, **self._static},
            )
            for i, fault in enumerate(self._members.fetch(faults)):
                if fault >= 0 and i not in self.diverged:
                    offset, field = divmod(int(fault), len(rollout.FIELDS))
                    step = f"step {self.step - steps + 1 + offset} of the run"
                    raise self._fault(i, field, step if field else f"the reset before {step}")
            if learning:
                self._take(metrics, finite)
        return [some[np.isfinite(some)].tolist() for some in self._members.fetch(returns)]

    def _acting(self, policy: HostPolicy, exploring: bool) -> Drawing:
        if exploring:
            return Exploring(policy)
        if self.behaviour is None or isinstance(self.behaviour, HostPolicy):
            return self.behaviour or policy
        return Following(policy, self.behaviour)

    def _take(self, metrics: Any, finite: Any) -> None:
        """The iteration's metrics; a member with one that is not finite is lost, and the last one lost ends the run."""
        self._fresh.clear()
        each, healthy = self._members.fetch(metrics), self._members.fetch(finite)
        self.metrics = {name: np.array([one[name] for one in each]) for name in each[0]}
        for i, seed in enumerate(self.seeds):
            bad = [name for name, values in self.metrics.items() if not np.isfinite(values[i])]
            bad += [] if healthy[i] else ["policy"]
            if bad and i not in self.diverged:
                self.diverged[i] = Diverged(self.step, bad[0], seed)
                if len(self.diverged) == len(self.seeds):
                    raise self.diverged[i]
                warnings.warn(f"{self.diverged[i]}; the other members go on", RuntimeWarning, stacklevel=4)

    # --------------------------------------------------------------------------------------------- looking

    def evaluate(self, episodes: int) -> Evaluation:
        """The deterministic policies on `episodes` episodes, the same ones every time."""
        with self._timing("evaluate"):
            if self._collector is not None:
                scores = self._collector.evaluate(self.policies(), episodes)
            elif self.data is not None:
                if not self.plays:
                    raise ValueError("eval_env: a dataset is nothing to play in; name an environment")
                players = zip(self._evaluators, self.policies())
                scores = [evaluator.play(policy, episodes) for evaluator, policy in players]
            else:
                held = (self._configs, self._keys, self._states, self._eval_envs)
                scored = self._members.run(
                    compiled_steps.evaluate, *held, static={"agent": self.agent, "episodes": episodes}
                )
                won, taken, faults = (self._members.fetch(part) for part in scored)
                self._check_evaluation(faults, taken)
                scores = list(zip(won, taken))
            returns, lengths = zip(*scores)
            return Evaluation(np.array(returns), np.array(lengths))

    def _check_evaluation(self, faults: Sequence[np.ndarray], lengths: Sequence[np.ndarray]) -> None:
        for i, some in enumerate(faults):
            bad = np.flatnonzero(some >= 0)
            if bad.size and i not in self.diverged:
                first = bad[0]
                where = f"step {lengths[i][first]} of episode {first + 1} of the evaluation"
                raise self._fault(i, int(some[first]), where)

    def _fault(self, member: int, field: int, where: str) -> EnvironmentFault:
        """field: its number in rollout.FIELDS."""
        complaint = f"{self.spec.name}: {rollout.FIELDS[field]} is not finite"
        return EnvironmentFault(complaint, f" at {where} (seed {self.seeds[member]})")

    def policies(self) -> list[HostPolicy]:
        """What each member has to show: who is evaluated and predicts, on the host."""
        return self._on_host(self.agent.deployed)

    def _on_host(self, who: Callable[[Config, State], Policy]) -> list[HostPolicy]:
        """agent.actor or agent.deployed of every member; fetched once per iteration."""
        if who not in self._fresh:
            (policies,) = self._members.run(compiled_steps.policy, self._configs, self._states, static={"who": who})
            # Whoever collects is fetched before every update; who is deployed perhaps never before a member is lost.
            known = self._policies.get(who) or self._policies.get(self.agent.actor)
            self._policies[who] = [
                known[i] if known and i in self.diverged else policy.on_host()
                for i, policy in enumerate(self._members.fetch(policies))
            ]
            self._fresh.add(who)
        return list(self._policies[who])

    @property
    def iteration(self) -> int:
        """Rounds of updates that the members have behind them, in earlier lives too."""
        (counts,) = self._members.run(compiled_steps.iteration, self._states)
        return int(self._members.fetch(counts)[0])

    def member(self, i: int) -> State:
        """The State of member i, with numpy arrays."""
        return self._members.fetch(self._states)[i]

    def load(self, states: Sequence[State]) -> None:
        """Put in States that learned before, one per member: they act at once, during the warm-up too."""
        if len(states) != len(self.seeds):
            raise ValueError(f"states: one for each of {len(self.seeds)} members, got {len(states)}")
        self._states = self._members.hold(states)
        self._prepared, self._explores, self.by_names = True, False, False
        self._fresh.clear()

    # -------------------------------------------------------------------------------------------- stopping, going on

    def snapshot(self) -> Snapshot:
        """All that the rest of the run depends on, between two iterations; keys are derived from seeds and counters.

        A ValueError where the environment cannot be brought back: a vector of them, given as an object.
        """
        fetch, lost = self._members.fetch, self.diverged
        state: dict[str, Any] = {"states": without(lost, fetch(self._states))}
        about: dict[str, Any] = {"run": self._identity()}
        if self._collector is None:
            state["lives"] = without(lost, fetch(self._lives)) if self.data is None else []
        else:
            about["actors"], state["actors"] = marks_apart(self._collector.marks())
        standing = Standing(
            self.step,
            self._written,
            self._prepared,
            self._explores,
            self.episodes,
            self._trajectories,
            [list(some) for some in self.recent],
            {name: [None if i in lost else float(x) for i, x in enumerate(xs)] for name, xs in self.metrics.items()},
            {str(i): [fault.step, fault.name] for i, fault in lost.items()},
            dict(self.seconds),
        )
        about["standing"] = plain(standing._asdict())
        return Snapshot(self.step, about, state, min(self._written, self.config.replay_capacity), self._newest)

    def _newest(self, count: int) -> Transition:
        """The newest transitions of every replay: [members, count, ...]"""
        if self._members.together:
            # Of powers of two there are few: no checkpoint waits for a program of its own.
            (newest,) = self._members.run(
                compiled_steps.newest, self._replays, static={"count": 1 << (count - 1).bit_length()}
            )
            rows = [jax.tree.map(lambda x: x[-count:], one) for one in self._members.fetch(newest)]
        else:  # on a CPU they are in our own memory: no program, and no copy of what is not asked for
            rows = [ring.newest_in_memory(replay, count) for replay in self._members.fetch(self._replays)]
        return jax.tree.map(lambda *members: np.stack(members), *without(self.diverged, rows))

    def restore(self, checkpoint: Checkpoint, *, restart_episodes: bool = False) -> None:
        """Stand where another trainer of the same run stood; from here on both do the same, bit for bit.

        A ValueError if it was another run, an Unrepeatable if the environment does not do again what it did. A lost
        member stays lost. restart_episodes: do not ask it to. Episodes that were under way are given up, which in the
        replay is as if the data of their environments paused, and the next ones begin; all else is as it was.
        """
        if restart_episodes and self._collector is None:
            raise ValueError(
                f"restart_episodes: {self.spec.name} is in the checkpoint itself, and its episodes go on as they were"
            )
        about, members = checkpoint.about, len(self.seeds)
        check_same_run(about.get("run"), self._identity(), plain(asdict(type(self.config)())))
        standing = read_standing(about.get("standing"), members)
        if (standing.step, min(standing.written, self.config.replay_capacity)) != (checkpoint.step, checkpoint.held):
            raise DamagedModel(f"'{checkpoint.path}' is not a checkpoint of ours: its counters contradict each other")
        fetch, hold = self._members.fetch, self._members.hold
        like: dict[str, Any] = {"states": fetch(self._states)}
        if self._collector is None:
            like["lives"] = fetch(self._lives) if self.data is None else []
        else:
            like["actors"] = arrays_like(about.get("actors"), self.spec, standing.step, members)
        state, rows = checkpoint.state(like), checkpoint.newest(_one_transition(self.spec, members))

        if self.data is not None:
            pass  # nobody is under way
        elif self._collector is None:
            self._lives = hold(state["lives"])
        else:
            self._collector.resume(marks_together(about["actors"], state["actors"]), restart_episodes)
            if restart_episodes:
                rows.last[:, -1:] = True
        self._states = hold(state["states"])
        self._written, capacity = standing.written, self.config.replay_capacity
        if self.data is None:  # else it is filled already
            each = [jax.tree.map(lambda x, i=i: x[i], rows) for i in range(members)]
            self._replays = hold([ring.refilled(some, self._written, capacity) for some in each])
        self._policies.clear()
        self._fresh.clear()
        self.step, self._prepared, self._explores = standing.step, standing.prepared, standing.explores
        self.episodes, self._trajectories = list(standing.episodes), list(standing.trajectories)
        self.recent = [deque(some, maxlen=20) for some in standing.recent]
        self.metrics = {name: np.array(values, float) for name, values in standing.metrics.items()}
        self.diverged = {int(i): Diverged(step, name, self.seeds[int(i)]) for i, (step, name) in standing.lost.items()}
        self.seconds = defaultdict(float, standing.seconds)

    def _identity(self) -> dict[str, Any]:
        """What must be the same for a run to be the same."""
        return plain(
            {
                "agent": self.agent.name,
                "env": asdict(self.spec),
                "noise": self._noise,
                "on the device": self._collector is None,
                "data": self.data,
                "seeds": self.seeds,
                "variants": [{name: float(value) for name, value in one.items()} for one in self.variants],
                "config": asdict(self.config),
            }
        )

    def close(self) -> None:
        """Ends worker processes and closes the environments that were made here."""
        if self._collector is not None:
            self._collector.close()
        for evaluator in self._evaluators:
            evaluator.close()

    @contextmanager
    def _timing(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begin


def member_configs(config: Config, variants: Sequence[Variant]) -> list[Config]:
    """Each member's config. Only floats may differ: the other fields set shapes or choose code."""
    floats = [field.name for field in fields(config) if field.type in (float, "float")]
    for variant in variants:
        for name in variant:
            if name not in floats:
                raise ValueError(f"{name}: members may differ only in the fields {', '.join(floats)}")
    return [with_fields(config, variant) for variant in variants]


def on_dataset(config: Config, transitions: int) -> Config:
    """The config with which an agent learns from so many transitions that are all there; a ValueError if it cannot."""
    if config.on_policy:
        raise ValueError("on_policy: data of another policy are nothing to learn from for this agent")
    every = {
        **{"replay_capacity": transitions, "warmup": transitions, "newest": None, "pi_newest": None, "overlap": False},
        "steps_per_iteration": min(config.steps_per_iteration, transitions),
    }
    return replace(config, **{f.name: every[f.name] for f in fields(config) if f.name in every})


def _one_transition(spec: EnvSpec, members: int) -> Transition:
    """The shapes and types of one of every member: [members, ...]"""
    return jax.eval_shape(lambda: ring.empty(spec, members)).data


def _pure_env(env: Any, noise: float) -> JaxEnv | None:
    if isinstance(env, JaxEnv) or (isinstance(env, str) and env.startswith("jax:")):
        made = registry.make(env, noise)
        assert isinstance(made, JaxEnv)
        return made
    return None
