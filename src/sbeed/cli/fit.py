"""`sbeed fit`: learn from a dataset, with every setting of the algorithm as a flag."""

import contextlib
from dataclasses import asdict, dataclass, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import tyro

from sbeed.agents.configs import FORMS, config_of
from sbeed.agents.knobs import check_ranges, knob, with_fields
from sbeed.cli.console import complaints
from sbeed.cli.flags import flags_of, given
from sbeed.cli.train import faults, new_run

if TYPE_CHECKING:
    from sbeed.storage.run_dir import Row, RunDir


@dataclass(frozen=True)
class FitPlan:
    """The settings of a run that are not the algorithm's."""

    eval_env: str = knob("", "where to evaluate, a Gymnasium id or a jax: name; without it nothing is played")
    agent: str = knob("sbeed", f"the algorithm: {', '.join(FORMS)}; those that need their own data are refused")
    preset: str = knob("", "the settings to start from; without it offline, which keeps pi near the data, or default")
    updates: int = knob(50_000, "updates of each agent, rounded up to whole rounds", low=1)
    seed: int = knob(0, "seed of the first agent", low=0)
    seeds: int = knob(1, "agents trained side by side, with the seeds that follow", low=1, high=1000)
    evaluate_every: int = knob(5_000, "updates between evaluations", low=1)
    episodes: int = knob(5, "episodes of each evaluation", low=1)
    final_episodes: int = knob(20, "episodes of the last one", low=1)
    checkpoint_every: int = knob(
        20_000, "updates between checkpoints, from which `sbeed resume` goes on; 0: none", low=0
    )


if TYPE_CHECKING:
    FitFlags: TypeAlias = Any
else:
    FitFlags = flags_of(FitPlan, "How to learn, for how long, and how often to look.", show_defaults=True)


@dataclass(frozen=True)
class Fit:
    """Learn from a dataset alone, without an environment; leaves what `sbeed train` leaves."""

    data: Annotated[Path, tyro.conf.Positional]
    """Directory of the dataset (`sbeed record`)."""
    out: Path
    """Directory of the run; it must not exist or be empty."""
    plan: Annotated[FitFlags, tyro.conf.OmitArgPrefixes]
    settings: Any  # flags of the algorithm's own (`fit_command`)

    def __call__(self) -> int:
        with complaints(ValueError):
            plan = with_fields(FitPlan(), given(self.plan))
            check_ranges(plan)
            changes = given(self.settings)
            if plan.agent in FORMS:
                check_ranges(with_fields(config_of(plan.agent, plan.preset)(), changes))
        return new_run(self.out, lambda run: self._record(run, plan, changes))

    def _record(self, run: "RunDir", plan: FitPlan, changes: dict[str, Any]) -> "list[Row]":
        from gymnasium.error import Error as GymnasiumError
        from jax.errors import JaxRuntimeError

        from sbeed.agents.registry import find
        from sbeed.storage.datasets import load_dataset
        from sbeed.training.progress_bar import progress_bar
        from sbeed.training.run import RunSpec, in_rounds, make_trainer
        from sbeed.training.session import record

        asked = asdict(plan)
        with complaints(ValueError):
            presets = find(plan.agent).presets
        asked["preset"] = plan.preset or ("offline" if "offline" in presets else "default")
        first, count = asked.pop("seed"), asked.pop("seeds")
        spec = RunSpec(env=asked.pop("eval_env"), steps=asked.pop("updates"), **asked, fields=changes)
        with faults(), complaints(ValueError, OSError, GymnasiumError, ImportError, JaxRuntimeError):
            dataset = load_dataset(self.data)
            trainer = make_trainer(spec, seeds=range(first, first + count), dataset=dataset)
        spec = replace(spec, steps=in_rounds(spec.steps, trainer.config), data=trainer.data)
        with contextlib.closing(trainer), faults(), progress_bar(trainer, spec.steps) as show:
            return record(run, spec, trainer, dataset.task(spec.env or None), on_progress=lambda _: show())


def fit_command(agent: str, preset: str) -> type[Fit]:
    """`Fit` with the flags of that algorithm's preset."""
    about = f"The settings of {agent}; those not given are the preset's."
    flags = flags_of(config_of(agent, preset), about, show_defaults=False)
    settings = ("settings", Annotated[flags, tyro.conf.OmitArgPrefixes])
    return make_dataclass("Fit", [settings], bases=(Fit,), frozen=True, namespace={"__doc__": Fit.__doc__})
