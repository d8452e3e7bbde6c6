"""`sbeed train`: every setting is a flag, and a key of a YAML or JSON file."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, make_dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import tyro

from sbeed.agents.configs import FORMS, check_names, config_of
from sbeed.agents.knobs import check_ranges, knob, with_fields
from sbeed.cli.console import DIVERGED, ENVIRONMENT_FAULT, UserError, complaints, require
from sbeed.cli.flags import dashed, flags_of, given

if TYPE_CHECKING:
    from sbeed.storage.run_dir import Row, RunDir


@dataclass(frozen=True)
class Plan:
    """The settings of a run that are not the algorithm's."""

    env: str = knob("", "a Gymnasium id such as Hopper-v5, or jax:pendulum, jax:cartpole, jax:lqr")
    agent: str = knob("sbeed", f"the algorithm: {', '.join(FORMS)}")
    preset: str = knob(
        "default",
        "the settings to start from: default (recommended), offline and paper-on-policy (sbeed), paper (all but sac), "
        "npg (trpo)",
    )
    steps: int = knob(1_000_000, "environment steps of each agent, exactly", low=1)
    seed: int = knob(0, "seed of the first agent", low=0)
    seeds: int = knob(1, "agents trained side by side, with the seeds that follow", low=1, high=1000)
    noise: float = knob(0.0, "standard deviation of noise on every transition of a Gymnasium environment", low=0)
    evaluate_every: int = knob(20_000, "steps between evaluations", low=1)
    episodes: int = knob(5, "episodes of each evaluation", low=1)
    final_episodes: int = knob(20, "episodes of the last one", low=1)
    checkpoint_every: int = knob(20_000, "steps between checkpoints, from which `sbeed resume` goes on; 0: none", low=0)


if TYPE_CHECKING:
    PlanFlags: TypeAlias = Any
else:
    PlanFlags = flags_of(Plan, "What to train, for how long, and how often to look.", show_defaults=True)


@dataclass(frozen=True)
class Asking:
    """What is asked of a run: flags over a file over the defaults."""

    out: Path
    """Directory of the run; it must not exist or be empty."""
    plan: Annotated[PlanFlags, tyro.conf.OmitArgPrefixes]
    settings: Any  # flags of the algorithm's own (`with_flags_of`)
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """YAML or JSON file with any of the settings below; flags win over it. The config.yaml of such a run is one."""
    workers: int = 0
    """Processes that step the environments; 0: this one."""

    def merged(self) -> tuple[Plan, dict[str, Any]]:
        """Fields of the algorithm's config are left for the preset to be known."""
        from sbeed.storage.run_dir import read_named_config

        with complaints(ValueError, OSError):
            file = read_named_config(self.config) if self.config is not None else {}
        names = {f.name for f in fields(Plan)}
        merged = {**file, **given(self.plan), **given(self.settings)}
        with self.complaints(ValueError):
            plan = with_fields(Plan(), {name: value for name, value in merged.items() if name in names})
            check_ranges(plan)
            if plan.agent not in FORMS:
                raise ValueError(f"agent: must be one of {', '.join(FORMS)}, got {plan.agent!r}")
            changes = {name: value for name, value in merged.items() if name not in names}
            check_names(plan.agent, plan.preset, changes)
            check_ranges(with_fields(config_of(plan.agent, plan.preset)(), changes))
        require("--env", plan.env != "", "name an environment, such as Pendulum-v1")
        check_workers(self.workers)
        return plan, changes

    def check_env(self, env: str) -> None:
        """A file imports no module; who names it by a flag may."""
        from sbeed.envs.task import check_imports_nothing

        if "env" not in given(self.plan):
            check_imports_nothing(env, "--env")

    @contextlib.contextmanager
    def complaints(self, *kinds: type[Exception]) -> Iterator[None]:
        """Complaints about a setting that came by a flag name the flag."""
        try:
            with complaints(*kinds):
                yield
        except UserError as error:
            name, colon, rest = str(error).partition(": ")
            by_flag = name in given(self.plan) or name in given(self.settings)
            raise UserError(f"--{dashed(name)}: {rest}" if colon and by_flag else str(error), error.code) from None


@dataclass(frozen=True)
class Train(Asking):
    """Train agents; leaves their final models, config.yaml, metrics.jsonl, TensorBoard events and a learning curve."""

    def __call__(self) -> int:
        plan, changes = self.merged()
        return new_run(self.out, lambda run: self._record(run, plan, changes))

    def _record(self, run: "RunDir", plan: Plan, changes: dict[str, Any]) -> "list[Row]":
        from gymnasium.error import Error as GymnasiumError
        from jax.errors import JaxRuntimeError

        from sbeed.envs.task import read_task
        from sbeed.training.progress_bar import progress_bar
        from sbeed.training.run import RunSpec, make_trainer
        from sbeed.training.session import record

        asked = asdict(plan)
        first, count = asked.pop("seed"), asked.pop("seeds")
        spec = RunSpec(**asked, fields=changes)
        wrong = (ValueError, GymnasiumError, ImportError, JaxRuntimeError)  # the last: out of memory
        with faults(), self.complaints(*wrong):  # the first reset is made here
            self.check_env(spec.env)
            task = read_task(spec.env, spec.noise)
            trainer = make_trainer(spec, seeds=range(first, first + count), workers=self.workers)
        with contextlib.closing(trainer), faults(), progress_bar(trainer, spec.steps) as show:
            return record(run, spec, trainer, task, on_progress=lambda _: show())


@dataclass(frozen=True)
class Resume:
    """Go on with a run that was stopped, by whatever, as if it had not been."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of the run."""
    start: Annotated[int | None, tyro.conf.arg(name="from", metavar="STEP", help_behavior_hint="")] = None
    """The checkpoint to go on from, if not the newest; those after it are removed."""
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """The environment's name again, where it would import a module: no file may make us do that."""
    workers: int = 0
    """Processes that step the environments; 0: this one."""
    restart_episodes: bool = False
    """Give up the episodes that were open: for an environment that is not deterministic and cannot bring them back."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """The dataset, where the run is one of `sbeed fit`: no file may name another. A different one is refused."""

    def __call__(self) -> int:
        from sbeed.storage.run_dir import RunDir, check_run

        check_workers(self.workers)
        with contextlib.ExitStack() as stack:
            with complaints(OSError):
                check_run(self.run)
                run = stack.enter_context(RunDir(self.run, resume=True))
            from gymnasium.error import Error as GymnasiumError

            from sbeed.collect.actor import Unrepeatable
            from sbeed.training.session import is_finished, pursue, read_settings

            with faults(), complaints(ValueError, GymnasiumError, ImportError, Unrepeatable):
                spec, seeds = read_settings(self.run)
                if self.start is None and is_finished(self.run, seeds, spec.steps, spec.steps):
                    print(f"'{self.run}' is finished: there is nothing left to do")
                    return 0
                rows = pursue(
                    run,
                    at=self.start,
                    env=self.env,
                    workers=self.workers,
                    restart_episodes=self.restart_episodes,
                    data=self.data,
                    progress_bar=True,
                )
        print_scores(rows)
        print(self.run)
        return 0


def new_run(out: Path, fill: "Callable[[RunDir], list[Row]]") -> int:
    """Have the directory of a new run filled, and print what came of it; the exit code."""
    from sbeed.storage.run_dir import RunDir

    with contextlib.ExitStack() as stack:
        with complaints(OSError):  # before anything that takes time: who comes second knows at once
            run = stack.enter_context(RunDir(out))
        rows = fill(run)
    print_scores(rows)
    print(out)
    return 0


def check_workers(workers: int) -> None:
    require("--workers", 0 <= workers <= 1024, f"must lie in 0..1024, got {workers}")


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """What may end a run that was rightly asked for, each kind with an exit code of its own."""
    from jax.errors import JaxRuntimeError

    from sbeed.envs.base import EnvironmentFault

    with (
        complaints(EnvironmentFault, code=ENVIRONMENT_FAULT),
        complaints(FloatingPointError, code=DIVERGED),
        complaints(JaxRuntimeError),
    ):
        yield


def print_scores(rows: "list[Row]") -> None:
    for row in rows:
        if row["final"] and "return" in row:
            print(f"seed {row['seed']}: return {row['return']:.1f} +- {row['return_std']:.1f}")


def with_flags_of(agent: str, preset: str, command: type[Asking]) -> type[Asking]:
    """The command with the flags of that algorithm's preset."""
    flags = flags_of(
        config_of(agent, preset),
        f"The settings of {agent}, as keys with underscores; those not given are the preset's.",
        show_defaults=False,
    )
    settings = ("settings", Annotated[flags, tyro.conf.OmitArgPrefixes])
    about = {"__doc__": command.__doc__}
    return make_dataclass(command.__name__, [settings], bases=(command,), frozen=True, namespace=about)


def chosen(args: Sequence[str]) -> tuple[str, str]:
    """The algorithm and the preset that flags name, or the file of --config: the other flags are theirs.

    A preset that is not named is "". Complaints come later.
    """
    words = [part for arg in args for part in arg.split("=", 1)]
    named, file = dict(pairwise(words)), {}
    if "--config" in named:
        from sbeed.storage.run_dir import read_named_config

        with contextlib.suppress(ValueError, OSError):
            file = read_named_config(Path(named["--config"]))
    agent, preset = (named.get(f"--{name}", file.get(name)) for name in ("agent", "preset"))
    return agent if isinstance(agent, str) and agent in FORMS else "sbeed", preset if isinstance(preset, str) else ""


def check_flags(agent: str, preset: str, args: Sequence[str]) -> None:
    """Complains of a flag that another form of the agent has: the parser knows those of the chosen one alone."""
    for arg in args:
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        if arg.startswith("--"):
            try:
                check_names(agent, preset, [name, name.removeprefix("no_")])
            except ValueError as error:
                raise UserError(f"{arg.partition('=')[0]}: {str(error).partition(': ')[2]}") from None
