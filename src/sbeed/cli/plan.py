"""What `train`, `fit` and `tune` ask for: one plan, made of flags over a file over the defaults."""

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
    """The settings of a run that are not the algorithm's."""

    env: str = knob("", "a Gymnasium id such as Hopper-v5, or jax:pendulum, jax:cartpole, jax:lqr")
    agent: str = knob("sbeed", f"the algorithm: {', '.join(FORMS)}")
    preset: str = knob(
        "default",
        "the settings to start from: default (recommended), gradient, offline and paper-on-policy (sbeed), "
        "paper (all but sac), npg (trpo)",
    )
    steps: int = knob(1_000_000, "environment steps of each agent, exactly", low=1)
    seed: int = knob(0, "seed of the first agent", low=0)
    seeds: int = knob(1, "agents trained side by side, with the seeds that follow", low=1, high=1000)
    noise: float = knob(0.0, "standard deviation of noise on every transition of a Gymnasium environment", low=0)
    evaluate_every: int = knob(20_000, "steps between evaluations", low=1)
    episodes: int = knob(5, "episodes of each evaluation", low=1)
    final_episodes: int = knob(20, "episodes of the last one", low=1)
    checkpoint_every: int = knob(20_000, "steps between checkpoints, from which `sbeed resume` goes on; 0: none", low=0)


class Plan(NamedTuple):
    """A run that is to be, or a population of them."""

    settings: Any  # RunSettings, or what another command has in their place
    changes: Mapping[str, Any]  # fields of the algorithm's config, over the preset's

    @property
    def seeds(self) -> range:
        return range(self.settings.seed, self.settings.seed + self.settings.seeds)

    def spec(self, **others: Any) -> "RunSpec":
        """others: what the run calls otherwise than the settings, or what only it knows."""
        from sbeed.training.run import RunSpec

        names = {f.name for f in fields(RunSpec)}
        asked = {name: value for name, value in asdict(self.settings).items() if name in names}
        return RunSpec(**{**asked, "fields": dict(self.changes), **others})


def plan_of(settings: Any, asked: Mapping[str, Any]) -> Plan:
    """The plan of defaults and what was asked for; a ValueError in one line, before jax is loaded."""
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
    """Complaints about a setting that came by one of these flags name the flag."""
    try:
        with complaints(*kinds):
            yield
    except UserError as error:
        name, colon, rest = str(error).partition(": ")
        by_flag = any(name in given(some) for some in flags)
        raise UserError(f"--{dashed(name)}: {rest}" if colon and by_flag else str(error), error.code) from None


# ------------------------------------------------------------------------------------------------- before the parser


def read_file(args: Sequence[str]) -> dict[str, Any]:
    """The settings in the file of --config, if there is one. It is read here and nowhere else: it may be a pipe."""
    named = _named(args)
    if "--config" not in named:
        return {}
    from sbeed.storage.run_dir import read_named_config

    with complaints(ValueError, OSError):
        return read_named_config(Path(named["--config"]))


def chosen(args: Sequence[str], file: Mapping[str, Any]) -> tuple[str, str]:
    """The algorithm and the preset that flags name, or the file: the other flags are theirs.

    A preset that is not named is "". Complaints come later.
    """
    named = _named(args)
    agent, preset = (named.get(f"--{name}", file.get(name)) for name in ("agent", "preset"))
    return agent if isinstance(agent, str) and agent in FORMS else "sbeed", preset if isinstance(preset, str) else ""


def _named(args: Sequence[str]) -> dict[str, str]:
    return dict(pairwise([part for arg in args for part in arg.split("=", 1)]))


def check_flags(agent: str, preset: str, args: Sequence[str]) -> None:
    """Complain of a flag that another form of the agent has: the parser knows those of the chosen one alone."""
    for arg in args:
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        if arg.startswith("--"):
            try:
                check_names(agent, preset, [name, name.removeprefix("no_")])
            except ValueError as error:
                raise UserError(f"{arg.partition('=')[0]}: {str(error).partition(': ')[2]}") from None
