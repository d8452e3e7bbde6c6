"""kill -9 inside of the checkpoint writer."""

import io
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, Snapshot, steps_of

NAME = "kill_writer"
MUST = "no checkpoint unreadable, at most one interval lost"
COUNT = 300
LIMIT = None
ABOUT = """\
A process that only writes checkpoints, of 3, 6, 9, ... steps, is killed inside of one. Even seeds: just before its n-th
call of open, write, fsync, mkdir, rename, unlink or rmdir, or in the middle of a write, for each n in turn. Odd seeds:
after a random number of microseconds. Then the newest checkpoint must be the one before or the one being written, equal
number for number to what was saved; a new writer must go on from it, leave nothing half-written and save on. What the
kernel was told is there after a kill; that it is there after a power cut rests on fsync, which no kill can test.
Seconds: to find and read the newest one.
"""

CAPACITY, INTERVAL, BEFORE, AFTER = 10, 3, 4, 2  # checkpoints until the one in which it is killed, and saved again


class Transitions(NamedTuple):
    obs: np.ndarray
    last: np.ndarray


LIKE = {"V": np.zeros(300, np.float32), "count": np.int32(0)}
ROW_LIKE = Transitions(np.zeros((2, 2), np.float32), np.zeros(2, bool))


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            yield _trial(Path(place) / str(seed), seed)


def _trial(run: Path, seed: int) -> Trial:
    if seed % 2 == 0:
        point = seed // 2 % points()
        return attempt(f"at a call, number {point}", seed, lambda: _kill_and_read(run, lambda: _die_at(point)))
    wait = random.Random(seed).uniform(0, 1.2 * seconds_of_a_save())
    return attempt(f"at a moment, after {wait * 1e6:.0f} us", seed, lambda: _kill_and_read(run, None, wait))


def _kill_and_read(run: Path, arm: Callable[[], object] | None, wait: float = 0.0) -> float:
    hear, say = os.pipe()
    process = _fork(lambda: _write(run, say, arm))
    os.close(say)
    os.read(hear, 1)  # it begins with the checkpoint in which it is to die
    time.sleep(wait)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(hear)
    begin = time.perf_counter()
    newest = steps_of(run)[-1]
    _check_whole(run, newest)
    seconds = time.perf_counter() - begin
    # The random form may have come after the writer was done: two intervals are then there.
    require(newest >= BEFORE * INTERVAL, f"the newest checkpoint is of {newest} steps, {BEFORE * INTERVAL} were saved")
    store = Checkpoints(run, resumed=newest)
    left = [path.name for path in run.rglob(".*")]
    require(not left, f"half-written files stayed: {left}")
    for step in range(newest + INTERVAL, newest + (AFTER + 1) * INTERVAL, INTERVAL):
        store.save(_snapshot(step))
        _check_whole(run, step)
    return seconds


def _write(run: Path, say: int, arm: Callable[[], object] | None) -> None:
    store = Checkpoints(run)
    for number in range(1, BEFORE + 1):
        store.save(_snapshot(number * INTERVAL))
    os.write(say, b".")
    if arm is not None:
        arm()
    store.save(_snapshot((BEFORE + 1) * INTERVAL))
    signal.pause()


def _fork(work: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        # jax warns of forks, for its threads; nothing here starts any.
        warnings.filterwarnings("ignore", category=RuntimeWarning)
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(1)
    return process


# ------------------------------------------------------------------------------------------------- what is saved


def _history(first: int, last: int) -> Transitions:
    """Transitions that say which they are."""
    number = np.arange(first, last, dtype=np.float32)[None, :, None]
    obs = number + np.array([0, 0.5], np.float32)[:, None, None] + np.zeros(2, np.float32)
    return Transitions(obs, obs[:, :, 0] % 3 == 0)


def _snapshot(step: int) -> Snapshot:
    state = {"V": np.full(300, step, np.float32), "count": np.int32(step)}
    return Snapshot(step, {"step": step}, state, min(step, CAPACITY), lambda n: _history(step - n, step))


def _check_whole(run: Path, step: int) -> None:
    found, saved = Checkpoint(run, step), _snapshot(step)
    same = (
        found.about == saved.about
        and _equal(found.state(LIKE), saved.state)
        and _equal(found.newest(ROW_LIKE), _history(step - saved.held, step))
    )
    require(same, f"the checkpoint of {step} steps holds something else")


def _equal(tree: Any, other: Any) -> bool:
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), tree, other)))


# ------------------------------------------------------------------------------------------------- calls


def _die_at(point: int) -> None:
    left = [point]

    def reached() -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _call_at_every_point(reached)


def _call_at_every_point(reached: Callable[[], None]) -> None:
    """For good: only for a process that is about to end."""
    names = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir")
    sync, real_open = os.fsync, io.open

    def fsync(handle: int) -> None:
        reached()
        sync(handle)

    class Torn(io.BufferedWriter):
        def write(self, content: Any) -> int:
            half = len(content) // 2
            super().write(content[:half])
            self.flush()
            reached()
            return half + super().write(content[half:])

    def opened(path: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        return Torn(io.FileIO(path, mode)) if mode in ("wb", "xb") else real_open(path, mode, *args, **named)

    os.fsync, io.open = fsync, opened  # type: ignore[assignment]
    sys.addaudithook(lambda event, _: reached() if event in names else None)


@cache
def points() -> int:
    """How many there are in one save."""
    return _measured()[0]


@cache
def seconds_of_a_save() -> float:
    return _measured()[1]


@cache
def _measured() -> tuple[int, float]:
    """By another process: what counts the calls cannot be taken away."""
    hear, say = os.pipe()

    def count() -> None:
        with tempfile.TemporaryDirectory() as place:
            store, seen = Checkpoints(Path(place)), [0]
            for number in range(1, BEFORE + 1):
                begin = time.perf_counter()
                store.save(_snapshot(number * INTERVAL))
                seconds = time.perf_counter() - begin

            def one_more() -> None:
                seen[0] += 1

            _call_at_every_point(one_more)
            store.save(_snapshot((BEFORE + 1) * INTERVAL))
            os.write(say, f"{seen[0]} {seconds}".encode())

    process = _fork(count)
    os.waitpid(process, 0)
    seen, seconds = os.read(hear, 100).split()
    for end in (hear, say):
        os.close(end)
    return int(seen), float(seconds)
