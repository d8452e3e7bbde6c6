"""Record a run in its directory, and resume it there after any interruption."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from sbeed.agents.knobs import whole_number
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
from sbeed.training.run_settings import check_settings, read_settings, settings_of
from sbeed.training.trainer import Trainer


class Past(NamedTuple):
    """The history of a run up to a checkpoint, saved in it beside the trainer's state."""

    first: int = 0  # the trainer's step when the run began
    rows: int = 0  # size of metrics.jsonl in bytes
    seconds: float = 0.0
    restarts: tuple[int, ...] = ()  # the steps at which the run continued with new episodes


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
    """Train to the end of the run; write settings, rows, events, checkpoints, models and the learning curve.

    earlier: steps that the agent learned before this trainer. past: the result of `restore`, if the run continues.
    Ctrl-C and SIGTERM end the run as if its steps were done; the exception is raised after that. Returns all rows of
    the run.
    """
    past = past or Past(first=trainer.step)
    if task.name is None and trainer.plays and not run.goes_on:
        # An environment given as an object may have no second one for evaluation: fail now, not after training.
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
        # Checkpoints that are later are removed before the rows that they count.
        store = Checkpoints(run.path, resumed=trainer.step, changed=restarted) if checkpoint_every else None
        run.open(trainer.seeds, step=trainer.step, rows=past.rows)

        def checkpoint(seconds: float) -> None:
            assert store is not None
            _save(store, trainer, past._replace(rows=run.bytes_of_rows(), seconds=seconds))
            run.keep()

        def append_with_restarts(rows: list[Row]) -> None:
            run.append({**row, "restarts": len(past.restarts)} for row in rows)

        if store is not None and not steps_of(run.path):  # from here on there is always a checkpoint
            _save(store, trainer, past)
        run_loop(
            trainer,
            past.first + spec.steps - trainer.step,
            evaluate_every=spec.evaluate_every,
            episodes=spec.episodes,
            final_episodes=spec.final_episodes,
            checkpoint_every=checkpoint_every,
            on_rows=append_with_restarts if past.restarts else run.append,
            on_checkpoint=checkpoint,
            on_progress=lambda trainer: on_progress(trainer) is not False and not interrupted(),
            seconds=past.seconds,
        )
        rows = run_dir.read_rows(run.path)
        draw_curve(run.path, rows)
        for i, seed in enumerate(trainer.seeds):  # last: the models mark the run as finished
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
        # The next updates find the member that diverged, and the others continue.
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


def draw_curve(out: Path, rows: list[Row]) -> None:
    if not any("return" in row for row in rows):  # there was no evaluation
        return
    if find_spec("matplotlib") is None:
        warnings.warn(f"no {run_dir.CURVE}: it needs matplotlib: pip install 'sbeed[plot]'", stacklevel=4)
        return
    from sbeed.reporting import plots

    picture = plots.picture(plots.learning_curves({out.resolve().name: rows}), "png")
    with explained_disk_errors(run_dir.CURVE, out, len(picture)):
        write_file(out / run_dir.CURVE, picture)


# ------------------------------------------------------------------------------------------------- going on


def restore(
    run: RunDir,
    trainer: Trainer,
    *,
    at: int | None = None,
    asked: RunSpec | None = None,
    restart_episodes: bool = False,
) -> Past:
    """Restore the trainer from the newest checkpoint of the run, or from that of step `at`. Nothing is written.

    asked: the run must have these settings. restart_episodes: drop unfinished episodes instead of replaying them. A run
    that was killed before its first checkpoint begins again.
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
            check_settings(run.path, settings_of(asked, trainer, past.first))
        return past
    step = there[-1] if at is None else at
    try:
        checkpoint = Checkpoint(run.path, step)
        past = _read_past(checkpoint)
        if past.rows > rows:
            raise DamagedModel(f"'{run.path / run_dir.METRICS}' has {rows} bytes; at the checkpoint it had {past.rows}")
        if asked is not None:
            check_settings(run.path, settings_of(asked, trainer, past.first))
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
    """True if the final rows, at that step, and their models, after `learned` steps, are in the directory."""
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
    """`resume` in a directory that the caller owns."""
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
    """Continue the run in that directory from its newest checkpoint, or from that of step `at`, and finish it.

    Its rows, parameters and replay then equal those of a run that never stopped, bit for bit, except for clocks.
    env: the environment's name, needed if it imports a module, which no file may cause. restart_episodes: drop the
    unfinished episodes, which an environment that is not deterministic cannot replay; then only what does not depend
    on them stays the same. data: the directory of the dataset, for a run that learns from one; another dataset is
    refused. Returns all rows.
    """
    run_dir.check_run(Path(path))
    asked: dict[str, Any] = {"at": at, "env": env, "workers": workers, "restart_episodes": restart_episodes}
    with RunDir(Path(path), resume=True) as run:
        return go_on(run, **asked, data=data, progress_bar=progress_bar, on_progress=on_progress)
