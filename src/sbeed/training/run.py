"""A run as data: its settings, its trainer, and functions that train it to the end."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from sbeed.agents.registry import configured, find
from sbeed.data.dataset import Dataset
from sbeed.envs.task import Env, Task, spec_of
from sbeed.storage.run_dir import Row
from sbeed.training.loop import OnProgress, OnRows, ignore, run_loop
from sbeed.training.trainer import Trainer, Variant


@dataclass(frozen=True)
class RunSpec:
    """The settings of one run, or of a population of runs."""

    env: str  # with `data`, where to evaluate; empty for nowhere
    agent: str = "sbeed"
    preset: str = "default"
    data: str | None = None  # SHA-256 of the dataset to learn from, instead of an environment
    steps: int = 1_000_000  # of each member's environment, exactly; with `data` updates, in whole rounds
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)  # of the config, over the preset's
    noise: float = 0.0  # scale of StochasticTransition
    evaluate_every: int = 20_000  # steps
    episodes: int = 5  # per evaluation
    final_episodes: int = 20  # of the last evaluation
    checkpoint_every: int = 20_000  # steps; 0 for no checkpoints

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", MappingProxyType(dict(self.fields)))  # frozen, as the rest

    def as_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"fields": dict(self.fields)}


def make_trainer(
    spec: RunSpec,
    task: Task | None = None,
    *,
    seeds: Sequence[int] = (0,),
    variants: Sequence[Variant] | None = None,
    workers: int = 0,
    dataset: Dataset | None = None,
    env: Env | None = None,
) -> Trainer:
    """Make the trainer of a run; whatever is wrong with the run is a ValueError here, before anything is written.

    task: the description of its environment, if it exists already. dataset: the one that the run learns from, if any.
    env: the environment, if its name is not enough to make it.
    """
    for name in ("steps", "evaluate_every", "episodes", "final_episodes"):
        if getattr(spec, name) < 1:
            raise ValueError(f"{name}: must be at least 1, got {getattr(spec, name)}")
    if spec.checkpoint_every < 0:
        raise ValueError(f"checkpoint_every: must not be negative, got {spec.checkpoint_every}")
    agent = find(spec.agent)
    if dataset is not None:
        config = configured(spec.agent, spec.preset, dataset.spec, spec.fields)
        trainer = Trainer(agent, dataset, config, seeds=seeds, variants=variants, eval_env=spec.env or None)
        if spec.data not in (None, trainer.data):
            raise ValueError(f"data: the run learns from the dataset {spec.data}, this is {trainer.data}")
        return trainer
    seen = task.spec if task is not None else spec_of(spec.env, spec.noise)
    config = configured(spec.agent, spec.preset, seen, spec.fields)
    made: dict[str, Any] = {"seeds": seeds, "variants": variants, "workers": workers, "noise": spec.noise, "spec": seen}
    return Trainer(agent, spec.env if env is None else env, config, **made)


def in_rounds(updates: int, config: Any) -> int:
    """Round a number of updates up to whole rounds."""
    return -(-updates // config.updates_per_iteration) * config.updates_per_iteration


def train(
    spec: RunSpec,
    *,
    seeds: Sequence[int] = (0,),
    variants: Sequence[Variant] | None = None,
    workers: int = 0,
    on_rows: OnRows = ignore,
    on_progress: OnProgress = ignore,
) -> list[Row]:
    """Train one agent per seed to the end of the run; returns all rows."""
    trainer = make_trainer(spec, seeds=seeds, variants=variants, workers=workers)
    try:
        return run_loop(
            trainer,
            spec.steps,
            evaluate_every=spec.evaluate_every,
            episodes=spec.episodes,
            final_episodes=spec.final_episodes,
            on_rows=on_rows,
            on_progress=on_progress,
        )
    finally:
        trainer.close()


def train_population(
    spec: RunSpec,
    seeds: int | Sequence[int] = 5,
    *,
    workers: int = 0,
    on_rows: OnRows = ignore,
    **values: Sequence[float],
) -> list[Row]:
    """Train every combination of the given values of float fields, with every seed, as one population.

    train_population(RunSpec("Hopper-v5"), seeds=5, lam=[0.01, 0.1], eta=[0.0, 0.1, 1.0]) trains 30 members.
    """
    seeds = range(seeds) if isinstance(seeds, int) else seeds
    combinations = [dict(zip(values, chosen)) for chosen in itertools.product(*values.values())]
    members = [(seed, variant) for variant in combinations for seed in seeds]
    return train(
        spec,
        seeds=[seed for seed, _ in members],
        variants=[variant for _, variant in members],
        workers=workers,
        on_rows=on_rows,
    )
