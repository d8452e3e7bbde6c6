"""Record a run in its directory, and resume it there after any interruption."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jax.errors import JaxRuntimeError

from sbeed.collect.workers import DeadWorker
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.maker import EnvMaker
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
from sbeed.training.loop import OnProgress, OnRows, goes_on, ignore, run_loop
from sbeed.training.past import Past, read_past
from sbeed.training.progress_bar import progress_bar as show_progress
from sbeed.training.run import RunSpec, make_trainer
from sbeed.training.run_settings import as_begun, check_settings, machine, read_settings, settings_of, tell_differences
from sbeed.training.trainer import Trainer


def record(
    run: RunDir,
    spec: RunSpec,
    trainer: Trainer,
    task: Task,
    *,
    earlier: int = 0,
    past: Past | None = None,
    on_progress: OnProgress = ignore,
    on_rows: OnRows = ignore,
) -> list[Row]:
    """Train to the end of the run; write settings, rows, events, checkpoints, models and the learning curve.

    earlier: steps that the agent learned before this trainer. past: the result of `restore`, if the run continues.
    Ctrl-C and SIGTERM end the run as if its steps were done; the exception is raised after that. Returns all rows of
    the run.
    """
    before = past or Past(first=trainer.step)
    if task.name is None and trainer.plays and not run.goes_on:
        # An environment given as an object may have no second one for evaluation: fail now, not after training.
        trainer.evaluate(spec.episodes)
    restarted = trainer.step in before.restarts
    if restarted:
        given_up = f"the episodes that were open at step {trainer.step} are given up"
        warnings.warn(f"{given_up}: this is no more the run that was never stopped", RuntimeWarning, stacklevel=3)
    checkpoint_every = spec.checkpoint_every if trainer.replayable else 0
    kept = f"what was learned until then lies in '{run.path}'"
    again = _how_to_go_on(run.path, spec, trainer, before) if checkpoint_every else ""
    with (
        interruptible(kept, again) as interrupted,
        _last_checkpoint_named(run),
        explained_disk_errors("more", run.path),
    ):
        settings = settings_of(spec, trainer, before.first)
        if not run.goes_on:
            run.begin(settings)
        # Checkpoints that are later are removed before the rows that they count.
        store = Checkpoints(run.path, resumed=trainer.step, changed=restarted) if checkpoint_every else None
        run.open(trainer.seeds, step=trainer.step, rows=before.rows)

        def save(past: Past) -> None:
            assert store is not None
            _save(store, trainer, {"past": past._asdict(), "settings": settings, "machine": machine()})

        def checkpoint(seconds: float) -> None:
            save(before._replace(rows=run.bytes_of_rows(), rows_sha256=run.hash_of_rows(), seconds=seconds))
            run.keep()

        def append(rows: list[Row]) -> None:
            run.append([{**row, "restarts": len(before.restarts)} for row in rows] if before.restarts else rows)
            on_rows(rows)

        if store is not None and not steps_of(run.path):  # from now on there is always one
            save(before)
        died_after = None  # the step of the last checkpoint when a worker died
        while True:
            try:
                run_loop(
                    trainer,
                    before.first + spec.steps - trainer.step,
                    evaluate_every=spec.evaluate_every,
                    episodes=spec.episodes,
                    final_episodes=spec.final_episodes,
                    checkpoint_every=checkpoint_every,
                    on_rows=append,
                    on_checkpoint=checkpoint,
                    on_progress=lambda trainer: goes_on(on_progress(trainer)) and not interrupted(),
                    seconds=before.seconds,
                )
                break
            except DeadWorker as error:
                newest = max(steps_of(run.path), default=None)
                if store is None or newest in (None, died_after, *before.restarts) or interrupted():
                    raise
                warnings.warn(f"{error}; the run goes on from step {newest}", RuntimeWarning, stacklevel=3)
                died_after = newest
                trainer.replace_workers()
                before = restore(run, trainer)
                run.rewind(trainer.step, before.rows)
        rows = run_dir.read_rows(run.path)
        draw_curve(run.path, rows, fitted=trainer.data is not None)
        for i, seed in enumerate(trainer.seeds):  # last: the models mark the run as finished
            if i not in trainer.diverged:
                card = ModelCard(trainer.agent.name, task, spec.preset, trainer.config, seed, earlier + trainer.step)
                save_model(run.model(seed), card, trainer.member(i))
    return rows


def _how_to_go_on(path: Path, spec: RunSpec, trainer: Trainer, past: Past) -> str:
    if "env" not in settings_of(spec, trainer, past.first):
        return f"learn(..., out='{path}', resume=True) goes on, or `sbeed resume {path}` with --env and its arguments"
    return f"`sbeed resume {path}{' --data DIR' if spec.data else ''}` goes on"


def _save(store: Checkpoints, trainer: Trainer, more: Mapping[str, Any]) -> None:
    """more: what the checkpoint says beside where the trainer stands."""
    snapshot = trainer.snapshot()
    try:
        store.save(snapshot._replace(about={**snapshot.about, **more}))
    except FloatingPointError as error:
        if len(trainer.seeds) == 1:
            raise
        # The next updates find the member that diverged, and the others continue.
        warnings.warn(f"{error}; the run goes on", RuntimeWarning, stacklevel=2)


@contextmanager
def _last_checkpoint_named(run: RunDir) -> Iterator[None]:
    try:
        yield
    except (EnvironmentFault, FloatingPointError, DeadWorker, JaxRuntimeError, MemoryError) as error:
        there = steps_of(run.path)
        if there and run.stays:
            error.add_note(f"the last checkpoint in '{run.path}' is of step {there[-1]}")
        raise


def draw_curve(out: Path, rows: list[Row], fitted: bool = False) -> None:
    if not any("return" in row for row in rows):  # there was no evaluation
        return
    if find_spec("matplotlib") is None:
        warnings.warn(f"no {run_dir.CURVE}: it needs matplotlib: pip install 'sbeed[plot]'", stacklevel=4)
        return
    from sbeed.reporting import plots

    name = out.resolve().name
    picture = plots.picture(plots.learning_curves({name: rows}, fitted=[name] if fitted else []), "png")
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
        past = read_past(checkpoint)
        if past.rows > rows:
            raise DamagedModel(f"'{run.path / run_dir.METRICS}' has {rows} bytes; at the checkpoint it had {past.rows}")
        if past.rows_sha256 and run.hash_of_rows(past.rows) != past.rows_sha256:
            raise DamagedModel(f"'{run.path / run_dir.METRICS}' is not what was saved: its SHA-256 differs")
        run_dir.read_rows(run.path)  # whatever is wrong with it is known before anything is changed
        if asked is not None:
            check_settings(run.path, settings_of(asked, trainer, past.first))
        trainer.restore(checkpoint, restart_episodes=restart_episodes)
        tell_differences(checkpoint)
    except DamagedModel as error:
        for older in there[: there.index(step)][-1:]:
            error.add_note(f"there is a checkpoint of step {older} too (--from {older})")
        raise
    return past._replace(restarts=(*past.restarts, step)) if restart_episodes else past


def model_in(path: Path) -> Path:
    """The saved model at that place: a model's own directory, or the one model of a run's.

    Raises a FileNotFoundError if there is none, a ValueError if there are several.
    """
    if not path.exists():
        raise FileNotFoundError(f"'{path}' does not exist")
    if not run_dir.is_run(path):
        return path
    try:
        found = run_dir.saved_models(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} yet: `sbeed resume {path}` finishes the run") from None
    if len(found) > 1:
        raise ValueError(f"'{path}' holds {len(found)} models: name one, such as '{found[0]}'")
    return found[0]


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
    env: str | EnvMaker | None = None,
    workers: int = 0,
    restart_episodes: bool = False,
    data: str | Path | None = None,
    progress_bar: bool = False,
    on_progress: OnProgress = ignore,
    on_rows: OnRows = ignore,
) -> list[Row]:
    """`resume` in a directory that the caller owns."""
    maker = env if isinstance(env, EnvMaker) else None
    spec, seeds = read_settings(run.path, maker)
    spec = as_begun(run.path, spec)
    if at is None and is_finished(run.path, seeds, spec.steps, spec.steps):
        return run_dir.read_rows(run.path)
    if env is None:
        check_imports_nothing(spec.env, "env")
    elif maker is None and env != spec.env:
        raise ValueError(f"env: the run's is {spec.env!r}, got {env!r}")
    if (data is None) != (spec.data is None):
        raise ValueError(f"data: the run learns from {'an environment' if spec.data is None else 'a dataset: name it'}")
    dataset = None if data is None else load_dataset(data)
    task = read_task(maker or spec.env, spec.noise) if dataset is None else dataset.task(spec.env or None)
    made = make_trainer(spec, task, seeds=seeds, workers=workers, dataset=dataset, env=maker)
    with closing(made) as trainer, ExitStack() as stack:
        past = restore(run, trainer, at=at, restart_episodes=restart_episodes)
        show: Callable[[], None] = lambda: None
        if progress_bar:
            show = stack.enter_context(show_progress(trainer, spec.steps - trainer.step))

        def hear(trainer: Trainer) -> bool | None:
            show()
            return on_progress(trainer)

        return record(run, spec, trainer, task, past=past, on_progress=hear, on_rows=on_rows)


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
