"""Take one run to its end, from its start or its newest checkpoint; every executor does this in a `process`."""

import json
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium.error import Error as GymnasiumError

from sbeed.collect.actor import Unrepeatable
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.task import read_task
from sbeed.experiments.machine import machine_and_device
from sbeed.experiments.spec import Run, describe, read_run
from sbeed.reporting import figure_folder
from sbeed.storage import run_dir, tensors
from sbeed.storage.checkpoints import CHECKPOINTS, REPLAY
from sbeed.storage.run_dir import RunDir
from sbeed.storage.safe_write import write_file
from sbeed.training.run import make_trainer
from sbeed.training.session import go_on, record
from sbeed.training.trainer import Trainer

FAILED, STOPPED = 3, 143  # exit codes


class Outcome(NamedTuple):
    """The end of a worker. A diverged run counts as finished, because it would diverge again."""

    # "done". "failed": the environment did. "refused": could not be made, read or written, and others may not either.
    # "died": killed, stopped or lost; the run can go on.
    kind: str
    message: str = ""


def work(path: Path, run: Run) -> Outcome:
    """Start or continue the run in its directory, and finish it."""
    try:
        diverged = _finish(path, run)
    except EnvironmentFault as error:
        return Outcome("failed", _one_line(error))
    except BlockingIOError as error:  # its last owner is about to end
        return Outcome("died", _one_line(error))
    except (ValueError, OSError, GymnasiumError, ImportError, Unrepeatable) as error:
        return Outcome("refused", _one_line(error))
    except RuntimeError as error:  # a process of its environments was killed, or the device had no memory left
        return Outcome("died", _one_line(error))
    figure_folder.write_end(path, describe(run), _result(path, run, diverged))
    for place in (CHECKPOINTS, REPLAY):  # nothing continues from them any more, and a replay is large
        shutil.rmtree(path / place, ignore_errors=True)
    figure_folder.forget_progress(path)
    return Outcome("done", diverged)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _finish(path: Path, run: Run) -> str:
    """Finish the run; returns the message of a run that diverged."""
    told = 0.0

    def hear(trainer: Trainer) -> None:
        nonlocal told
        if time.monotonic() - told > 1:
            told = time.monotonic()
            figure_folder.write_progress(path, trainer.step)

    if not run_dir.is_run(path):  # its last worker was killed while it was to say that the run had diverged at once
        figure_folder.forget_end(path)
    try:
        with RunDir(path, resume=True) as place:
            if place.goes_on:
                go_on(place, env=run.spec.env, workers=_workers(run), on_progress=hear)
            else:
                task = read_task(run.spec.env, run.spec.noise)
                with closing(make_trainer(run.spec, task, seeds=run.seeds, workers=_workers(run))) as trainer:
                    record(place, run.spec, trainer, task, on_progress=hear)
    except FloatingPointError as error:
        path.mkdir(exist_ok=True)  # of one that has nothing to show nothing is left
        if not (path / run_dir.METRICS).exists():
            write_file(path / run_dir.METRICS, b"")
        return str(error)
    return ""


def _workers(run: Run) -> int:
    """Worker processes for a population's environments: its updates are quick and its steps are not."""
    return run.members if run.members > 1 else 0


def _result(path: Path, run: Run, diverged: str) -> dict[str, Any]:
    """The content of result.json.   diverged: the message of a run that diverged, else """ ""
    rows = run_dir.read_rows(path)
    finals = {} if diverged else {row["seed"]: row["return"] for row in rows if row["final"]}
    return {
        "outcome": "diverged" if diverged else "finished",
        "message": diverged,
        "lost": [seed for seed in run.seeds if seed not in finals],
        "step": rows[-1]["step"] if rows else 0,
        "return": sum(finals.values()) / len(finals) if finals else None,
        "seconds": rows[-1]["seconds"] if rows else 0.0,
        "machine": machine_and_device(),
        "versions": tensors.versions(),
    }


def answer(path: Path) -> int:
    """Work on the run that stdin describes, in that directory; returns the exit code of the process."""
    outcome = work(path, read_run(json.load(sys.stdin)))
    if outcome.kind == "done":
        return 0
    print(outcome.message, file=sys.stderr)
    return {"failed": FAILED, "died": STOPPED}.get(outcome.kind, 1)
