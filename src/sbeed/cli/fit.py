"""`sbeed fit`: learn from a dataset, with every setting of the algorithm as a flag."""

import contextlib
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import tyro

from sbeed.agents.configs import FORMS, config_of
from sbeed.agents.knobs import knob
from sbeed.cli.console import complaints
from sbeed.cli.flags import flags_of, given
from sbeed.cli.plan import RunSettings, plan_of
from sbeed.cli.train import faults, own_run, report


def _as_train(name: str) -> Any:
    """Copy the setting of that name from `sbeed train`."""
    theirs = RunSettings.__dataclass_fields__[name]
    return field(default=theirs.default, metadata=theirs.metadata)


@dataclass(frozen=True)
class FitSettings:
    """Settings of a run from a dataset, without those of the algorithm."""

    eval_env: str = knob(
        "", "environment to evaluate in, a Gymnasium id or a jax: name; without it nothing is evaluated"
    )
    agent: str = knob("sbeed", f"the algorithm: {', '.join(FORMS)}; those that need their own data are refused")
    preset: str = knob(
        "",
        "preset to start from; by default offline, which keeps pi near the data, if the algorithm has it, else default",
    )
    updates: int = knob(50_000, "updates of each agent, rounded up to whole rounds", low=1)
    seed: int = _as_train("seed")
    seeds: int = _as_train("seeds")
    evaluate_every: int = knob(5_000, "updates between evaluations; fewer cost more time", low=1)
    episodes: int = _as_train("episodes")
    final_episodes: int = _as_train("final_episodes")
    checkpoint_every: int = knob(
        20_000, "updates between checkpoints, from which `sbeed resume` continues; 0: no checkpoints", low=0
    )


if TYPE_CHECKING:
    FitFlags: TypeAlias = Any
else:
    FitFlags = flags_of(FitSettings, "How to learn, for how long, and how often to evaluate.", show_defaults=True)


@dataclass(frozen=True)
class Fit:
    """Learn from a dataset alone, without an environment; writes the same files as `sbeed train`."""

    data: Annotated[Path, tyro.conf.Positional]
    """Directory of the dataset (`sbeed record`)."""
    out: Path
    """Directory of the run; it must be empty or not exist."""
    plan: Annotated[FitFlags, tyro.conf.OmitArgPrefixes]
    settings: Any  # flags of the algorithm's own (`fit_command`)

    def __call__(self) -> int:
        with complaints(ValueError):
            plan = plan_of(FitSettings(), {**given(self.plan), **given(self.settings)})
        with own_run(self.out) as run:
            from gymnasium.error import Error as GymnasiumError
            from jax.errors import JaxRuntimeError

            from sbeed.agents.registry import find
            from sbeed.storage.datasets import load_dataset
            from sbeed.training.progress_bar import progress_bar
            from sbeed.training.run import in_rounds, make_trainer
            from sbeed.training.session import record

            asked = plan.settings
            preset = asked.preset or ("offline" if "offline" in find(asked.agent).presets else "default")
            spec = plan.spec(env=asked.eval_env, steps=asked.updates, preset=preset)
            with faults(), complaints(ValueError, OSError, GymnasiumError, ImportError, JaxRuntimeError):
                dataset = load_dataset(self.data)
                task = dataset.task(spec.env or None)
                trainer = make_trainer(spec, task, seeds=plan.seeds, dataset=dataset)
            spec = replace(spec, steps=in_rounds(spec.steps, trainer.config), data=trainer.data)
            with contextlib.closing(trainer), faults(), progress_bar(trainer, spec.steps) as show:
                rows = record(run, spec, trainer, task, on_progress=lambda _: show())
        return report(rows, self.out)


def fit_command(agent: str, preset: str) -> type[Fit]:
    """Extend `Fit` by the flags of that algorithm's preset."""
    about = f"Settings of {agent}; the preset gives those that are left out."
    flags = flags_of(config_of(agent, preset), about, show_defaults=False)
    settings = ("settings", Annotated[flags, tyro.conf.OmitArgPrefixes])
    return make_dataclass("Fit", [settings], bases=(Fit,), frozen=True, namespace={"__doc__": Fit.__doc__})
