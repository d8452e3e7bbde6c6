"""The plan of a `train`, `fit` or `tune`: flags override a file, which overrides the defaults."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sbeed.agents.configs import FORMS, check_names, config_of
from sbeed.agents.knobs import check_ranges, knob, with_fields
from sbeed.cli.console import UserError, complaints
from sbeed.cli.flags import dashed, given

if TYPE_CHECKING:
    from sbeed.training.run import RunSpec


@dataclass(frozen=True)
class RunSettings:
    """Settings of a run, without those of the algorithm."""

    env: str = knob("", "a Gymnasium id such as Hopper-v5, or jax:pendulum, jax:cartpole, jax:lqr")
    agent: str = knob("sbeed", f"the algorithm: {', '.join(FORMS)}")
    preset: str = knob(
        "default",
        "the settings to start from: default (recommended), gradient, offline, paper-exact and paper-on-policy "
        "(sbeed), paper (all but sac), npg (trpo)",
    )
    steps: int = knob(1_000_000, "environment steps of each agent; exactly this many are taken", low=1)
    seed: int = knob(0, "seed of the first agent", low=0)
    seeds: int = knob(1, "number of agents trained side by side; they get consecutive seeds", low=1, high=1000)
    noise: float = knob(0.0, "standard deviation of noise added to every transition of a Gymnasium environment", low=0)
    evaluate_every: int = knob(20_000, "steps between evaluations; fewer cost more time", low=1)
    episodes: int = knob(5, "episodes of each evaluation", low=1)
    final_episodes: int = knob(20, "episodes of the last evaluation", low=1)
    checkpoint_every: int = knob(
        20_000, "steps between checkpoints, from which `sbeed resume` continues; 0: no checkpoints", low=0
    )


class Plan(NamedTuple):
    """A run that is about to start, or a population of runs."""

    settings: Any  # RunSettings, or the settings of another command
    changes: Mapping[str, Any]  # fields of the algorithm's config that replace the preset's

    @property
    def seeds(self) -> range:
        return range(self.settings.seed, self.settings.seed + self.settings.seeds)

    def spec(self, **others: Any) -> "RunSpec":
        """The plan as a `RunSpec`.   others: fields of the run that the settings lack or name differently"""
        from sbeed.training.run import RunSpec

        names = {f.name for f in fields(RunSpec)}
        asked = {name: value for name, value in asdict(self.settings).items() if name in names}
        return RunSpec(**{**asked, "fields": dict(self.changes), **others})


def plan_of(settings: Any, asked: Mapping[str, Any]) -> Plan:
    """Merge the defaults and the given values into a plan; raise a one-line ValueError before jax is loaded."""
    names = {f.name for f in fields(settings)}
    settings = with_fields(settings, {name: value for name, value in asked.items() if name in names})
    check_ranges(settings)
    if settings.agent not in FORMS:
        raise ValueError(f"agent: must be one of {', '.join(FORMS)}, got {settings.agent!r}")
    changes = {name: value for name, value in asked.items() if name not in names}
    check_names(settings.agent, settings.preset, changes)
    check_ranges(with_fields(config_of(settings.agent, settings.preset)(), changes))
    return Plan(settings, changes)


@contextlib.contextmanager
def told_by_flag(flags: Sequence[Any], *kinds: type[Exception]) -> Iterator[None]:
    """Name the flag in an error about a setting that one of these flags set."""
    try:
        with complaints(*kinds):
            yield
    except UserError as error:
        name, colon, rest = str(error).partition(": ")
        by_flag = any(name in given(some) for some in flags)
        raise UserError(f"--{dashed(name)}: {rest}" if colon and by_flag else str(error), error.code) from None


# ------------------------------------------------------------------------------------------------- before the parser


def read_file(args: Sequence[str]) -> dict[str, Any]:
    """Read the settings in the file of --config, if there is one. Read it only here: it may be a pipe."""
    named = _named(args)
    if "--config" not in named:
        return {}
    from sbeed.storage.run_dir import read_named_config

    with complaints(ValueError, OSError):
        return read_named_config(Path(named["--config"]))


def chosen(args: Sequence[str], file: Mapping[str, Any]) -> tuple[str, str]:
    """Find the algorithm and the preset in the flags or the file; they decide which other flags exist.

    A preset that is not named is "". Wrong names are reported later.
    """
    named = _named(args)
    agent, preset = (named.get(f"--{name}", file.get(name)) for name in ("agent", "preset"))
    return agent if isinstance(agent, str) and agent in FORMS else "sbeed", preset if isinstance(preset, str) else ""


def _named(args: Sequence[str]) -> dict[str, str]:
    return dict(pairwise([part for arg in args for part in arg.split("=", 1)]))


def check_flags(agent: str, preset: str, args: Sequence[str]) -> None:
    """Refuse a flag that only another form of the agent has: the parser knows the flags of the chosen form alone."""
    for arg in args:
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        if arg.startswith("--"):
            try:
                check_names(agent, preset, [name, name.removeprefix("no_")])
            except ValueError as error:
                raise UserError(f"{arg.partition('=')[0]}: {str(error).partition(': ')[2]}") from None
