"""Tiny runs to be hurt, and what must be the same of two of them."""

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sbeed.storage import run_dir
from sbeed.storage.checkpoints import Checkpoint, steps_of

SIZES = "--hidden 4 --batch-size 4 --replay-capacity 100 --warmup 16 --steps-per-iteration 8 --updates-per-iteration 1"
LOOKS = "--episodes 1 --evaluate-every 24 --final-episodes 2 --checkpoint-every 16"
FIELDS: dict[str, Any] = {
    **{"hidden": (4,), "batch_size": 4, "replay_capacity": 100, "warmup": 16},
    **{"steps_per_iteration": 8, "updates_per_iteration": 1},
}


def command(out: Path, env: str, steps: int, *more: str) -> list[str]:
    """Of `sbeed`, for a run of that many steps. Flags given later win."""
    words = ["train", "--env", env, "--steps", str(steps), *SIZES.split(), *LOOKS.split(), *more]
    return [*words, "--out", str(out)]


def start(words: Sequence[str], cache: Path) -> subprocess.Popen:
    """A `sbeed` process, which finds compiled programs in `cache`."""
    variables = {
        **os.environ,
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # all of them: starting is most of a short life
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    pipes: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-m", "sbeed", *words], env=variables, **pipes)


class Said(NamedTuple):
    code: int
    out: str
    err: str


def sbeed(*words: Any) -> Said:
    """The command line in this process."""
    from sbeed import cli

    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Said(code, out.getvalue(), err.getvalue())


class BrokenOff(BaseException):
    """Stands for the end of a process."""


def break_off(out: Path, env: str, at: int, *more: str, steps: int = 100) -> None:
    """A run that is no more after step `at`."""
    from sbeed import cli
    from sbeed.training.trainer import Trainer

    advance = Trainer.advance

    def until(self: Any, most: int) -> int:
        if self.step >= at:
            raise BrokenOff
        return advance(self, most)

    with replaced(Trainer, "advance", until), contextlib.suppress(BrokenOff):
        cli.main(command(out, env, steps, *more))


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def fingerprint(run: Path) -> dict[str, Any]:
    """All that must be the same of two runs: rows without clocks, models, the last checkpoint and its replay."""
    last = Checkpoint(run, steps_of(run)[-1])
    standing = {name: value for name, value in last.about["standing"].items() if name != "seconds"}
    return {
        "rows": rows_without_clocks(run),
        "models": {path.parent.name: _tensors(path) for path in sorted(run.glob("*/manifest.json"))},
        "state": last.file["tensors"],
        "standing": standing,
        "actors": last.about.get("actors"),
        "replay": {name: _replay(run, last, name) for part in last.parts[:1] for name in part.file["tensors"]},
    }


def rows_without_clocks(run: Path) -> list[dict[str, Any]]:
    return [{name: x for name, x in row.items() if not name.endswith("seconds")} for row in run_dir.read_rows(run)]


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The names of what differs; empty if nothing does."""
    return ", ".join(name for name in one if one[name] != other[name])


def files(run: Path) -> dict[str, bytes]:
    """The files of a directory that must not change. The lock names its owner, so it is left out."""
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if _counts(path)}


def copy(run: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    return Path(shutil.copytree(run, to))


def end(process: subprocess.Popen) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def _counts(path: Path) -> bool:
    return path.is_file() and path.name != "lock"


def _tensors(manifest: Path) -> dict[str, Any]:
    return json.loads(manifest.read_text())["tensors"]


def _replay(run: Path, checkpoint: Checkpoint, name: str) -> list[bytes]:
    """The replay, transition by transition: a stopped run has other parts, which together must hold the same."""
    from safetensors.numpy import load_file

    parts = [load_file(run / "replay" / part.name)[name] for part in checkpoint.parts]
    return [part[:, i].tobytes() for part in parts for i in range(part.shape[1])][-checkpoint.held :]
