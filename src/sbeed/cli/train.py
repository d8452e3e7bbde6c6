"""`sbeed train` and `sbeed resume`: every setting is a flag, and a key of a YAML or JSON file."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import tyro

from sbeed.agents.configs import config_of
from sbeed.cli.console import DIVERGED, ENVIRONMENT_FAULT, complaints, require, say
from sbeed.cli.flags import flags_of, given, own_default, preset_value
from sbeed.cli.lines import resumed_lines, told
from sbeed.cli.plan import Plan, RunSettings, plan_of, told_by_flag

if TYPE_CHECKING:
    from sbeed.envs.maker import EnvMaker
    from sbeed.storage.run_dir import Row, RunDir

EnvKwargs: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="KEY=VALUE ...", help_behavior_hint="")]
Wrappers: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODULE:NAME ...", help_behavior_hint="")]


if TYPE_CHECKING:
    PlanFlags: TypeAlias = Any
else:
    PlanFlags = flags_of(
        RunSettings, "What to train, for how long, and how often to evaluate.", default=own_default(RunSettings)
    )


@dataclass(frozen=True)
class Asking:
    """Flags that `train` and `tune` share: flags override a file, which overrides the defaults."""

    out: Path
    """Directory of the run; it must be empty or not exist."""
    plan: Annotated[PlanFlags, tyro.conf.OmitArgPrefixes]
    settings: Any  # flags of the algorithm's own (`with_flags_of`)
    config: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """YAML or JSON file with any of the settings below; flags override it. A run's config.yaml is such a file."""
    workers: int = 0
    """Processes that step the environments; 0: this process does. More speed up slow environments and use memory."""

    file: ClassVar[Mapping[str, Any]] = {}  # what --config holds (`with_flags_of`)

    def merged(self) -> Plan:
        """Merge file and flags into a plan; the preset's own values are filled in later."""
        with self.complaints(ValueError):
            plan = plan_of(RunSettings(), {**self.file, **given(self.plan), **given(self.settings)})
        require("--env", plan.settings.env != "", "name an environment, such as Pendulum-v1")
        check_workers(self.workers)
        return plan

    def check_env(self, env: str) -> None:
        """Refuse an environment's name that imports a module, unless it came by flag: no file may do that."""
        from sbeed.envs.task import check_imports_nothing

        if "env" not in given(self.plan):
            check_imports_nothing(env, "--env")

    def complaints(self, *kinds: type[Exception]) -> contextlib.AbstractContextManager[None]:
        return told_by_flag((self.plan, self.settings), *kinds)


@dataclass(frozen=True)
class Train(Asking):
    """Train agents; writes their final models, config.yaml, metrics.jsonl, TensorBoard events and a learning curve."""

    env_kwargs: EnvKwargs = ()
    """Arguments of the environment, as key=value; `sbeed resume` and `eval` are given them again."""
    wrapper: Wrappers = ()
    """Wrappers around the environment, as module:Name, the first one innermost."""
    quiet: bool = False
    """Print nothing before the final scores."""
    verbose: bool = False
    """Print a line for each evaluation on a terminal too, with all numbers of the updates."""

    def __call__(self) -> int:
        plan = self.merged()
        with own_run(self.out) as run:
            from gymnasium.error import Error as GymnasiumError
            from jax.errors import JaxRuntimeError

            from sbeed.envs.maker import EnvMaker
            from sbeed.envs.task import read_task
            from sbeed.training.run import make_trainer
            from sbeed.training.session import record

            spec = plan.spec()
            wrong = (ValueError, GymnasiumError, ImportError, JaxRuntimeError)  # the last: out of memory
            with faults(), self.complaints(*wrong):  # the first reset is made here
                self.check_env(spec.env)
                env = named_env(spec.env, self.env_kwargs, self.wrapper)
                task = read_task(env, spec.noise)
                if task.name is not None and unversioned(spec.env, task.spec.name):  # one warning of it is enough
                    spec, task = replace(spec, env=task.spec.name), task._replace(name=task.spec.name)
                maker = env if isinstance(env, EnvMaker) else None
                trainer = make_trainer(spec, task, seeds=plan.seeds, workers=self.workers, env=maker)
            saying = told(spec, trainer, quiet=self.quiet, verbose=self.verbose)
            with contextlib.closing(trainer), faults(), saying as hearing:
                rows = record(run, spec, trainer, task, on_progress=hearing.progress, on_rows=hearing.rows)
        return report(rows, self.out)


@dataclass(frozen=True)
class Resume:
    """Continue a stopped run from its newest checkpoint; the result is that of a run that never stopped."""

    run: Annotated[Path, tyro.conf.Positional]
    """Directory of the run."""
    start: Annotated[int | None, tyro.conf.arg(name="from", metavar="STEP", help_behavior_hint="")] = None
    """Step of the checkpoint to continue from, if not the newest; later checkpoints are removed."""
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")] = None
    """Name of the environment, needed only if the name imports a module: no file may cause an import."""
    env_kwargs: EnvKwargs = ()
    """Arguments of the environment, if it was begun with some: with --env."""
    wrapper: Wrappers = ()
    """Wrappers around the environment, if it was begun with some: with --env."""
    workers: int = 0
    """Processes that step the environments; 0: this process does. More speed up slow environments and use memory."""
    restart_episodes: bool = False
    """Drop the unfinished episodes: for an environment that is not deterministic, so that they cannot be replayed."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory of the dataset, for a run of `sbeed fit`. A dataset other than the run's is refused."""
    quiet: bool = False
    """Print nothing before the final scores."""

    def __call__(self) -> int:
        from sbeed.storage.checkpoints import cores_of

        check_workers(self.workers)
        with own_run(self.run, resume=True) as run:
            cores = cores_of(self.run)
            if cores is not None:  # XLA reads it when it starts, and divides its sums as it did then
                os.environ.setdefault("NPROC", str(cores))
            from gymnasium.error import Error as GymnasiumError

            from sbeed.collect.actor import Unrepeatable
            from sbeed.envs.maker import EnvMaker
            from sbeed.training.run_settings import read_settings
            from sbeed.training.session import go_on, is_finished

            with faults(), complaints(ValueError, GymnasiumError, ImportError, Unrepeatable):
                env = None if self.env is None else named_env(self.env, self.env_kwargs, self.wrapper)
                spec, seeds = read_settings(self.run, env if isinstance(env, EnvMaker) else None)
                if self.start is None and is_finished(self.run, seeds, spec.steps, spec.steps):
                    say(f"'{self.run}' is finished: there is nothing left to do")
                    return 0
                rows = go_on(
                    run,
                    at=self.start,
                    env=env,
                    workers=self.workers,
                    restart_episodes=self.restart_episodes,
                    data=self.data,
                    progress_bar=not self.quiet,
                    on_rows=resumed_lines(spec.steps, len(seeds), self.quiet),
                )
        return report(rows, self.run)


@contextlib.contextmanager
def own_run(path: Path, *, resume: bool = False) -> "Iterator[RunDir]":
    """Own the directory of a run for the block, before anything slow: a second run there fails at once."""
    from sbeed.storage.run_dir import RunDir, check_run

    with contextlib.ExitStack() as stack:
        with complaints(OSError):
            if resume:
                check_run(path)
            run = stack.enter_context(RunDir(path, resume=resume))
        yield run


def named_env(name: str, arguments: Sequence[str], wrappers: Sequence[str]) -> "str | EnvMaker":
    """The environment that the user named: its name, or what makes it with its arguments and wrappers."""
    from sbeed.envs.maker import read_maker

    return read_maker(name, arguments, wrappers) if arguments or wrappers else name


def unversioned(asked: str, made: str) -> bool:
    """True for a name such as HalfCheetah, for which Gymnasium makes HalfCheetah-v5 with a warning."""
    return made.rpartition("-v")[0] == asked


def check_workers(workers: int) -> None:
    require("--workers", 0 <= workers <= 1024, f"must lie in 0..1024, got {workers}")


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """Turn the failures of a valid run into one-line errors, each kind with its own exit code."""
    from jax.errors import JaxRuntimeError

    from sbeed.collect.workers import DeadWorker
    from sbeed.envs.base import EnvironmentFault

    with (
        complaints(EnvironmentFault, DeadWorker, code=ENVIRONMENT_FAULT),
        complaints(FloatingPointError, code=DIVERGED),
        complaints(JaxRuntimeError, MemoryError),
    ):
        yield


def report(rows: "list[Row]", path: Path) -> int:
    """Print the final scores and the run's directory; returns the exit code."""
    for row in rows:
        if row["final"] and "return" in row:
            say(f"seed {row['seed']}: return {row['return']:.1f} +- {row['return_std']:.1f}")
    say(path)
    return 0


def with_flags_of(agent: str, preset: str, command: type[Asking], file: Mapping[str, Any]) -> type[Asking]:
    """Extend the command by the flags of that algorithm's preset and by the content of --config."""
    flags = flags_of(
        config_of(agent, preset),
        f"Settings of {agent}; as keys of a file they have underscores. The preset gives those that are left out.",
        default=partial(preset_value, agent, preset),
    )
    settings = ("settings", Annotated[flags, tyro.conf.OmitArgPrefixes])
    more = {"__doc__": command.__doc__, "file": file}
    return make_dataclass(command.__name__, [settings], bases=(command,), frozen=True, namespace=more)
