"""A run with a directory of its own: begun, stopped by whatever, gone on with, and finished."""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sbeed.agents.configs import check_names
from sbeed.agents.knobs import plain_fields, whole_number, with_fields
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.task import Task, check_imports_nothing, read_task
from sbeed.storage import run_dir
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, steps_of
from sbeed.storage.datasets import load_dataset
from sbeed.storage.disk_errors import explained_disk_errors
from sbeed.storage.models import ModelCard, save_model
from sbeed.storage.run_dir import Row, RunDir
from sbeed.storage.safe_write import write_file
from sbeed.storage.tensor_folder import MODEL
from sbeed.storage.tensors import DamagedModel
from sbeed.training.interrupt import interruptible
from sbeed.training.loop import OnProgress, ignore, run_loop
from sbeed.training.progress_bar import progress_bar as show_progress
from sbeed.training.run import RunSpec, make_trainer
from sbeed.training.trainer import Trainer


class Past(NamedTuple):
    """What there was of a run until its checkpoint, beside where its trainer stood."""

    first: int = 0  # the trainer's step when the run began
    rows: int = 0  # bytes of metrics.jsonl
    seconds: float = 0.0
    restarts: tuple[int, ...] = ()  # the steps at which it went on with new episodes


def record(
    run: RunDir,
    spec: RunSpec,
    trainer: Trainer,
    task: Task,
    *,
    earlier: int = 0,
    past: Past | None = None,
    on_progress: OnProgress = ignore,
) -> list[Row]:
    """Let a trainer take the run's steps and leave settings, rows, events, checkpoints, models and the curve.

    earlier: steps of the agent before this trainer's. past: what `restore` gave, if the run goes on. Ctrl-C and SIGTERM
    end it as if its steps were done, and are then passed on. Returns the rows of the whole run.
    """
    past = past or Past(first=trainer.step)
    if task.name is None and trainer.plays and not run.goes_on:
        # An environment that is an object may have no other to evaluate in: better known now.
        trainer.evaluate(spec.episodes)
    restarted = trainer.step in past.restarts
    if restarted:
        given_up = f"the episodes that were open at step {trainer.step} are given up"
        warnings.warn(f"{given_up}: this is no more the run that was never stopped", RuntimeWarning, stacklevel=3)
    checkpoint_every = spec.checkpoint_every if trainer.replayable else 0
    kept = f"what was learned until then lies in '{run.path}'"
    with interruptible(kept) as interrupted, _last_checkpoint_named(run), explained_disk_errors("more", run.path):
        if not run.goes_on:
            run.begin(settings_of(spec, trainer, past.first))
        # Later checkpoints go before the rows that they count on.
        store = Checkpoints(run.path, resumed=trainer.step, changed=restarted) if checkpoint_every else None
        run.open(trainer.seeds, step=trainer.step, rows=past.rows)

        def checkpoint(seconds: float) -> None:
            assert store is not None
            _save(store, trainer, past._replace(rows=run.bytes_of_rows(), seconds=seconds))
            run.keep()

        def append(rows: list[Row]) -> None:
            run.append([{**row, "restarts": len(past.restarts)} for row in rows] if past.restarts else rows)

        if store is not None and not steps_of(run.path):  # from now on there is always one
            _save(store, trainer, past)
        run_loop(
            trainer,
            past.first + spec.steps - trainer.step,
            evaluate_every=spec.evaluate_every,
            episodes=spec.episodes,
            final_episodes=spec.final_episodes,
            checkpoint_every=checkpoint_every,
            on_rows=append,
            on_checkpoint=checkpoint,
            on_progress=lambda trainer: on_progress(trainer) is not False and not interrupted(),
            seconds=past.seconds,
        )
        rows = run_dir.read_rows(run.path)
        _draw_curve(run.path, rows)
        for i, seed in enumerate(trainer.seeds):  # last: with them the run is finished
            if i not in trainer.diverged:
                card = ModelCard(trainer.agent.name, task, spec.preset, trainer.config, seed, earlier + trainer.step)
                save_model(run.model(seed), card, trainer.member(i))
    return rows


def _save(store: Checkpoints, trainer: Trainer, past: Past) -> None:
    snapshot = trainer.snapshot()
    try:
        store.save(snapshot._replace(about={**snapshot.about, "past": past._asdict()}))
    except FloatingPointError as error:
        if len(trainer.seeds) == 1:
            raise
        # The next updates tell whose number it is, and the others go on.
        warnings.warn(f"{error}; the run goes on", RuntimeWarning, stacklevel=2)


@contextmanager
def _last_checkpoint_named(run: RunDir) -> Iterator[None]:
    try:
        yield
    except (EnvironmentFault, FloatingPointError) as error:
        there = steps_of(run.path)
        if there and run.stays:
            error.add_note(f"the last checkpoint in '{run.path}' is of step {there[-1]}")
        raise


def _draw_curve(out: Path, rows: list[Row]) -> None:
    if not any("return" in row for row in rows):  # nothing was played
        return
    if find_spec("matplotlib") is None:
        warnings.warn(f"no {run_dir.CURVE}: it needs matplotlib: pip install 'sbeed[plot]'", stacklevel=4)
        return
    from sbeed.reporting import plots

    picture = plots.picture(plots.learning_curves({out.resolve().name: rows}), "png")
    with explained_disk_errors(run_dir.CURVE, out, len(picture)):
        write_file(out / run_dir.CURVE, picture)


# ------------------------------------------------------------------------------------------------- config.yaml


def settings_of(spec: RunSpec, trainer: Trainer, first_step: int) -> dict[str, Any]:
    """What config.yaml holds. It names no environment if more than names is needed to make the run again."""
    first, members = trainer.seeds[0], len(trainer.seeds)
    by_names = trainer.by_names and first_step == 0 and trainer.seeds == tuple(range(first, first + members))
    left_out = {"fields", *(() if by_names else ("env",)), *(() if spec.data else ("data",))}
    asked = {name: value for name, value in spec.as_dict().items() if name not in left_out}
    return {**asked, "seed": first, "seeds": members, **plain_fields(trainer.config)}


def read_settings(path: Path) -> tuple[RunSpec, range]:
    """What a run's config.yaml asks for, and its seeds."""
    settings = run_dir.read_config(path / run_dir.CONFIG)
    if "env" not in settings:
        raise ValueError(
            f"'{path}' was begun with an environment, a behaviour or an agent that is in no file: "
            "only the program that began it can go on, with learn(resume=True)"
        )
    names = {field.name for field in fields(RunSpec)} - {"fields"}
    asked = {name: settings.pop(name) for name in names & settings.keys()}
    first, members = (whole_number(name, settings.pop(name, low), low=low) for name, low in (("seed", 0), ("seeds", 1)))
    return with_fields(RunSpec("", fields=settings), asked), range(first, first + members)


def _check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """A ValueError that names the first setting in which the run that is there is another one."""
    there = run_dir.read_config(path / run_dir.CONFIG)
    check_names(settings["agent"], settings["preset"], there)
    for name in {**settings, **there}:
        if there.get(name) != settings.get(name):
            raise ValueError(
                f"'{path}' is another run's: its {name} is {there.get(name)!r}, here it is {settings.get(name)!r}"
            )


# ------------------------------------------------------------------------------------------------- going on


def restore(
    run: RunDir,
    trainer: Trainer,
    *,
    at: int | None = None,
    asked: RunSpec | None = None,
    restart_episodes: bool = False,
) -> Past:
    """Let the trainer stand where the run stood at its newest checkpoint, or at that step. Nothing is written.

    asked: what the run must be, if not whatever its own settings say. restart_episodes: but for its open episodes,
    which are given up. A run that was killed before its first checkpoint begins again.
    """
    there = steps_of(run.path)
    if at is not None and at not in there:
        raise ValueError(f"'{run.path}' has no checkpoint of step {at}; it has {', '.join(map(str, there)) or 'none'}")
    rows = run.bytes_of_rows()
    if not there:
        if rows:
            raise ValueError(
                f"'{run.path}' has rows and no checkpoint: it cannot go on; a finished run's agent is in its model"
            )
        past = Past(first=trainer.step)
        if asked is not None:
            _check_settings(run.path, settings_of(asked, trainer, past.first))
        return past
    step = there[-1] if at is None else at
    try:
        checkpoint = Checkpoint(run.path, step)
        past = _read_past(checkpoint)
        if past.rows > rows:
            raise DamagedModel(f"'{run.path / run_dir.METRICS}' has {rows} bytes; at the checkpoint it had {past.rows}")
        if asked is not None:
            _check_settings(run.path, settings_of(asked, trainer, past.first))
        trainer.restore(checkpoint, restart_episodes=restart_episodes)
    except DamagedModel as error:
        for older in there[: there.index(step)][-1:]:
            error.add_note(f"there is a checkpoint of step {older} too (--from {older})")
        raise
    return past._replace(restarts=(*past.restarts, step)) if restart_episodes else past


def _read_past(checkpoint: Checkpoint) -> Past:
    try:
        past = Past(**checkpoint.about["past"])
        first, rows = (whole_number(name, getattr(past, name), low=0) for name in ("first", "rows"))
        restarts = tuple(whole_number("restarts", step, low=0) for step in past.restarts)
        before = first <= checkpoint.step and all(step < checkpoint.step for step in restarts)
        if not (before and 0 <= past.seconds < math.inf):
            raise ValueError("its numbers contradict each other")
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedModel(f"'{checkpoint.path}' does not say what was before it ({error})") from None
    return Past(first, rows, float(past.seconds), restarts)


def is_finished(path: Path, seeds: Sequence[int], step: int, learned: int) -> bool:
    """Whether the final rows, of that step, and their models, which learned from so many steps, are there."""
    try:
        finals = {row["seed"] for row in run_dir.read_rows(path) if row["final"] and row["step"] == step}
        models = [MODEL.read_manifest(run_dir.model_of(path, seeds, seed)) for seed in finals]
    except (FileNotFoundError, KeyError, DamagedModel):
        return False
    return bool(models) and all(model.get("steps") == learned for model in models)


def go_on(
    run: RunDir,
    *,
    at: int | None = None,
    env: str | None = None,
    workers: int = 0,
    restart_episodes: bool = False,
    data: str | Path | None = None,
    progress_bar: bool = False,
    on_progress: OnProgress = ignore,
) -> list[Row]:
    """`resume` of a directory that is ours already."""
    spec, seeds = read_settings(run.path)
    if at is None and is_finished(run.path, seeds, spec.steps, spec.steps):
        return run_dir.read_rows(run.path)
    if env is None:
        check_imports_nothing(spec.env, "env")
    elif env != spec.env:
        raise ValueError(f"env: the run's is {spec.env!r}, got {env!r}")
    if (data is None) != (spec.data is None):
        raise ValueError(f"data: the run learns from {'an environment' if spec.data is None else 'a dataset: name it'}")
    dataset = None if data is None else load_dataset(data)
    task = read_task(spec.env, spec.noise) if dataset is None else dataset.task(spec.env or None)
    made = make_trainer(spec, task, seeds=seeds, workers=workers, dataset=dataset)
    with closing(made) as trainer, ExitStack() as stack:
        past = restore(run, trainer, at=at, restart_episodes=restart_episodes)
        show: Callable[[], None] = lambda: None
        if progress_bar:
            show = stack.enter_context(show_progress(trainer, spec.steps - trainer.step))

        def hear(trainer: Trainer) -> bool | None:
            show()
            return on_progress(trainer)

        return record(run, spec, trainer, task, past=past, on_progress=hear)


def resume(
    path: str | Path,
    *,
    at: int | None = None,
    env: str | None = None,
    workers: int = 0,
    restart_episodes: bool = False,
    data: str | Path | None = None,
    progress_bar: bool = False,
    on_progress: OnProgress = ignore,
) -> list[Row]:
    """Go on with the run in that directory from its newest checkpoint, or from the one `at` a step, and finish it.

    Its rows, parameters and replay are then those of a run that was never stopped, bit for bit, clocks apart. env: the
    environment's name again, where it would import a module, which no file may make us do. restart_episodes: give up
    the episodes that were open, which an environment that is not deterministic cannot bring back; all but the bits
    that depend on them is then as it was. data: the directory of the dataset that the run learns from, if it does;
    another one is refused. Returns all rows.
    """
    run_dir.check_run(Path(path))
    asked: dict[str, Any] = {"at": at, "env": env, "workers": workers, "restart_episodes": restart_episodes}
    with RunDir(Path(path), resume=True) as run:
        return go_on(run, **asked, data=data, progress_bar=progress_bar, on_progress=on_progress)
