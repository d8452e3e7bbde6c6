"""`sbeed train` and `sbeed resume`: every setting is a flag, and a key of a YAML or JSON file."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import tyro

from sbeed.agents.configs import config_of
from sbeed.cli.console import DIVERGED, ENVIRONMENT_FAULT, complaints, require
from sbeed.cli.flags import flags_of, given
from sbeed.cli.plan import Plan, RunSettings, plan_of, told_by_flag

if TYPE_CHECKING:
    from sbeed.storage.run_dir import Row, RunDir


if TYPE_CHECKING:
    PlanFlags: TypeAlias = Any
else:
    PlanFlags = flags_of(RunSettings, "What to train, for how long, and how often to evaluate.", show_defaults=True)


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

    def __call__(self) -> int:
        plan = self.merged()
        with own_run(self.out) as run:
            from gymnasium.error import Error as GymnasiumError
            from jax.errors import JaxRuntimeError

            from sbeed.envs.task import read_task
            from sbeed.training.progress_bar import progress_bar
            from sbeed.training.run import make_trainer
            from sbeed.training.session import record

            spec = plan.spec()
            wrong = (ValueError, GymnasiumError, ImportError, JaxRuntimeError)  # the last: out of memory
            with faults(), self.complaints(*wrong):  # the first reset is made here
                self.check_env(spec.env)
                task = read_task(spec.env, spec.noise)
                trainer = make_trainer(spec, task, seeds=plan.seeds, workers=self.workers)
            with contextlib.closing(trainer), faults(), progress_bar(trainer, spec.steps) as show:
                rows = record(run, spec, trainer, task, on_progress=lambda _: show())
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
    workers: int = 0
    """Processes that step the environments; 0: this process does. More speed up slow environments and use memory."""
    restart_episodes: bool = False
    """Drop the unfinished episodes: for an environment that is not deterministic, so that they cannot be replayed."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="")] = None
    """Directory of the dataset, for a run of `sbeed fit`. A dataset other than the run's is refused."""

    def __call__(self) -> int:
        check_workers(self.workers)
        with own_run(self.run, resume=True) as run:
            from gymnasium.error import Error as GymnasiumError

            from sbeed.collect.actor import Unrepeatable
            from sbeed.training.run_settings import read_settings
            from sbeed.training.session import go_on, is_finished

            with faults(), complaints(ValueError, GymnasiumError, ImportError, Unrepeatable):
                spec, seeds = read_settings(self.run)
                if self.start is None and is_finished(self.run, seeds, spec.steps, spec.steps):
                    print(f"'{self.run}' is finished: there is nothing left to do")
                    return 0
                rows = go_on(
                    run,
                    at=self.start,
                    env=self.env,
                    workers=self.workers,
                    restart_episodes=self.restart_episodes,
                    data=self.data,
                    progress_bar=True,
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


def check_workers(workers: int) -> None:
    require("--workers", 0 <= workers <= 1024, f"must lie in 0..1024, got {workers}")


@contextlib.contextmanager
def faults() -> Iterator[None]:
    """Turn the failures of a valid run into one-line errors, each kind with its own exit code."""
    from jax.errors import JaxRuntimeError

    from sbeed.envs.base import EnvironmentFault

    with (
        complaints(EnvironmentFault, code=ENVIRONMENT_FAULT),
        complaints(FloatingPointError, code=DIVERGED),
        complaints(JaxRuntimeError),
    ):
        yield


def report(rows: "list[Row]", path: Path) -> int:
    """Print the final scores and the run's directory; returns the exit code."""
    for row in rows:
        if row["final"] and "return" in row:
            print(f"seed {row['seed']}: return {row['return']:.1f} +- {row['return_std']:.1f}")
    print(path)
    return 0


def with_flags_of(agent: str, preset: str, command: type[Asking], file: Mapping[str, Any]) -> type[Asking]:
    """Extend the command by the flags of that algorithm's preset and by the content of --config."""
    flags = flags_of(
        config_of(agent, preset),
        f"Settings of {agent}; as keys of a file they have underscores. The preset gives those that are left out.",
        show_defaults=False,
    )
    settings = ("settings", Annotated[flags, tyro.conf.OmitArgPrefixes])
    more = {"__doc__": command.__doc__, "file": file}
    return make_dataclass(command.__name__, [settings], bases=(command,), frozen=True, namespace=more)
