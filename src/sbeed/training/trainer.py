"""One or many agents that learn in lockstep: collect, insert, update, evaluate."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple

import numpy as np

from sbeed.agents.base import Agent, Config, State
from sbeed.agents.knobs import with_fields
from sbeed.data.dataset import Dataset
from sbeed.envs.task import Env, OneEnv, check_fits, spec_of
from sbeed.models.host import HostPolicy
from sbeed.storage.checkpoints import Checkpoint, Snapshot
from sbeed.storage.datasets import fingerprint
from sbeed.storage.tensors import DamagedModel
from sbeed.training.choose_experience import experience_of
from sbeed.training.compile_cache import keep_compiled_programs
from sbeed.training.experience import Rule, Saved, one_transition
from sbeed.training.population import Diverged, Population
from sbeed.training.resume_state import Counters, as_json, check_same_run, read_counters, without
from sbeed.types import EnvSpec

Variant = Mapping[str, float]  # the float fields in which one member differs


class Evaluation(NamedTuple):
    """Scores of the deterministic policies on episodes that training never sees.   Both [members, episodes]"""

    returns: np.ndarray
    lengths: np.ndarray


class Trainer:
    """M members in lockstep, one per seed; they may differ in float fields of the config.

    Each member is the run that it would be alone: its environment, its random streams and its batches depend only on
    its seed and its fields. The exception is rounds of whole trajectories, where all wait for the slowest member.
    """

    episodes: list[int]  # that each member has finished
    recent: list[deque[float]]  # each member's last 20 training returns
    by_names: bool  # the names of agent and environment, the config and the seeds are enough to make it again
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
        spec: EnvSpec | None = None,
    ):
        """env: a name, a JaxEnv, one Gymnasium environment or VectorEnv, which serves one seed alone, or a Dataset.

        With a Dataset nothing is collected: the replay holds all of it from the first update on. No environment is
        needed; `evaluate` plays in `eval_env`, if given.

        variants: for each member the float fields in which it differs from `config`. workers: processes that step
        environments given by name; 0 steps them in this one. behaviour: the policy that collects data: None for
        the current policy, a HostPolicy of the same kind for a fixed one, or a function obs -> action in [-1, 1] (an
        integer if discrete). spec: of `env`, if it is known already.
        """
        self.agent, self._noise = agent, noise
        self.seeds = tuple(int(seed) for seed in seeds)
        self.variants = tuple(variants) if variants is not None else ({},) * len(self.seeds)
        _check_members(self.seeds, self.variants, workers)
        dataset = env if isinstance(env, Dataset) else None
        experience = experience_of(env, noise, eval_env, workers=workers, behaviour=behaviour, members=len(self.seeds))
        self.spec = spec or (env.spec if isinstance(env, Dataset) else spec_of(env, noise))
        self.config = config if dataset is None else on_dataset(config, len(dataset))
        if dataset is not None and eval_env is not None:
            check_fits("eval_env", spec_of(eval_env), self.spec)
        configs = member_configs(self.config, self.variants)
        for one in configs:
            agent.check(one, self.spec)
        if dataset is not None:  # of which nothing new comes between updates
            configs = [replace(one, steps_per_iteration=0) for one in configs]

        keep_compiled_programs()
        self._population = Population(agent, configs, self.spec, self.seeds)
        self._experience = experience(self._population, self.config)
        self.data = None if dataset is None else fingerprint(dataset)
        named = isinstance(eval_env, str | None) if dataset is not None else isinstance(env, str) and eval_env is None
        self.by_names = named and behaviour is None and self.variants == ({},) * len(self.seeds)
        self.episodes = [0] * len(self.seeds)
        self.recent = [deque(() if dataset is None else dataset.returns, maxlen=20) for _ in self.seeds]

    # --------------------------------------------------------------------------------------------- learning

    def advance(self, most: int) -> int:
        """Run one iteration: collect min(steps_per_iteration, most) steps, insert, update; returns the steps taken.

        The warm-up's steps are uniformly random. When its data are there the agent prepares, once, and learns. With
        `overlap`, on the host, updates are on what was there before these steps: both go on at the same time. With
        `trajectories_per_iteration` updates wait until every member has finished so many, and follow at once, without
        overlap; with `on_policy` the data are forgotten after them. From a dataset an iteration is a round of updates,
        which count as the steps, even if fewer were asked for.
        """
        steps, returns = self._experience.advance(most)
        for i, ended in enumerate(returns):
            self.episodes[i] += len(ended)
            self.recent[i].extend(ended)
        return steps

    @property
    def step(self) -> int:
        """Environment steps that each member has taken; updates, if it learns from a dataset."""
        return self._population.step

    @property
    def iteration(self) -> int:
        """Rounds of updates that the members have made, those before a load included."""
        return self._population.iteration

    @property
    def metrics(self) -> dict[str, np.ndarray]:
        """Metrics of the last iteration: {name: [members]}; empty before the first update."""
        return self._population.metrics

    @property
    def diverged(self) -> dict[int, Diverged]:
        """Members that diverged while others continue: their last finite policies act."""
        return self._population.diverged

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds spent on "collect", "update", "evaluate"; a JAX environment collects inside "update"."""
        return self._population.seconds

    # --------------------------------------------------------------------------------------------- looking

    @property
    def plays(self) -> bool:
        """True if there is an environment to evaluate in."""
        return self._experience.plays

    def evaluate(self, episodes: int) -> Evaluation:
        """Score the deterministic policies on `episodes` episodes, the same ones at every call."""
        with self._population.timing("evaluate"):
            returns, lengths = zip(*self._experience.evaluate(episodes))
            return Evaluation(np.array(returns), np.array(lengths))

    def policies(self) -> list[HostPolicy]:
        """Each member's deployed policy, the one that is evaluated and predicts, on the host."""
        return self._population.policies()

    def member(self, i: int) -> State:
        """The State of member i, with numpy arrays."""
        return self._population.members.fetch(self._population.states)[i]

    def load(self, states: Sequence[State]) -> None:
        """Load States that learned before, one per member; they act at once, during the warm-up too."""
        if len(states) != len(self.seeds):
            raise ValueError(f"states: one for each of {len(self.seeds)} members, got {len(states)}")
        self._population.put(states)
        self._population.prepared, self._experience.explores, self.by_names = True, False, False

    # -------------------------------------------------------------------------------------------- stopping, going on

    @property
    def replayable(self) -> bool:
        """True if snapshots are possible; a vector environment given as an object cannot be restored."""
        return self._experience.replayable

    def snapshot(self) -> Snapshot:
        """Save all that the rest of the run depends on, between two iterations; keys follow from seeds and counters.

        Raises a ValueError if the environment cannot be restored: a vector of them, given as an object.
        """
        population, experience, lost = self._population, self._experience, self.diverged
        states = without(lost, population.members.fetch(population.states))
        about, arrays = experience.snapshot()
        counters = Counters(
            self.step,
            experience.written,
            population.prepared,
            experience.explores,
            self.episodes,
            experience.trajectories,
            [list(some) for some in self.recent],
            {name: [None if i in lost else float(x) for i, x in enumerate(xs)] for name, xs in self.metrics.items()},
            {str(i): [fault.step, fault.name] for i, fault in lost.items()},
            dict(self.seconds),
        )
        about = {"run": self._identity(), **about, "standing": as_json(counters._asdict())}
        held = min(experience.written, self.config.replay_capacity)
        return Snapshot(self.step, about, {"states": states, **arrays}, held, experience.newest)

    def restore(self, checkpoint: Checkpoint, *, restart_episodes: bool = False) -> None:
        """Take over the state of another trainer of the same run; from here on both do the same, bit for bit.

        Raises a ValueError for another run, and Unrepeatable if replayed episodes differ. A diverged member stays so.
        restart_episodes: do not replay unfinished episodes. They are dropped: in the replay it is as if the data of
        their environments paused, and new ones begin; all else is as it was.
        """
        population, experience = self._population, self._experience
        if restart_episodes and experience.on_device:
            raise ValueError(
                f"restart_episodes: {self.spec.name} is saved whole in the checkpoint, so its episodes continue"
            )
        about, members = checkpoint.about, len(self.seeds)
        check_same_run(about.get("run"), self._identity(), as_json(asdict(type(self.config)())))
        counters = read_counters(about.get("standing"), members)
        if (counters.step, min(counters.written, self.config.replay_capacity)) != (checkpoint.step, checkpoint.held):
            raise DamagedModel(
                f"'{checkpoint.path}' is not a checkpoint that sbeed wrote: its counters contradict each other"
            )
        like = {"states": population.members.fetch(population.states), **experience.like(about, counters.step)}
        state, rows = checkpoint.state(like), checkpoint.newest(one_transition(self.spec, members))

        experience.restore(Saved(about, state), rows, counters.written, restart=restart_episodes)
        experience.explores, experience.trajectories = counters.explores, list(counters.trajectories)
        lost = {int(i): Diverged(step, name, self.seeds[int(i)]) for i, (step, name) in counters.lost.items()}
        metrics = {name: np.array(values, float) for name, values in counters.metrics.items()}
        population.restore(state["states"], counters.step, counters.prepared, metrics, lost, counters.seconds)
        self.episodes = list(counters.episodes)
        self.recent = [deque(some, maxlen=20) for some in counters.recent]

    def _identity(self) -> dict[str, Any]:
        """The settings that identify a run."""
        return as_json(
            {
                "agent": self.agent.name,
                "env": asdict(self.spec),
                "noise": self._noise,
                "on the device": self._experience.on_device,
                "data": self.data,
                "seeds": self.seeds,
                "variants": [{name: float(value) for name, value in one.items()} for one in self.variants],
                "config": asdict(self.config),
            }
        )

    def close(self) -> None:
        """End worker processes and close the environments that were made here."""
        self._experience.close()


def _check_members(seeds: Sequence[int], variants: Sequence[Variant], workers: int) -> None:
    if not seeds:
        raise ValueError("seeds: there must be at least one")
    if len(variants) != len(seeds):
        raise ValueError(f"variants: one for each of {len(seeds)} seeds, got {len(variants)}")
    for seed in seeds:
        if not 0 <= seed < 2**32:
            raise ValueError(f"seed: must lie in [0, 2^32), got {seed}")
    if workers < 0:
        raise ValueError(f"workers: must not be negative, got {workers}")


def member_configs(config: Config, variants: Sequence[Variant]) -> list[Config]:
    """Each member's config. Only floats may differ: the other fields set shapes or choose code."""
    floats = [field.name for field in fields(config) if field.type in (float, "float")]
    for variant in variants:
        for name in variant:
            if name not in floats:
                raise ValueError(f"{name}: members may differ only in the fields {', '.join(floats)}")
    return [with_fields(config, variant) for variant in variants]


def on_dataset(config: Config, transitions: int) -> Config:
    """Adapt the config to a dataset of that many transitions; raise a ValueError if the agent cannot learn from one."""
    if config.on_policy:
        raise ValueError("on_policy: this agent cannot learn from the data of another policy")
    every = {
        **{"replay_capacity": transitions, "warmup": transitions, "newest": None, "pi_newest": None, "overlap": False},
        "steps_per_iteration": min(config.steps_per_iteration, transitions),
    }
    return replace(config, **{f.name: every[f.name] for f in fields(config) if f.name in every})
