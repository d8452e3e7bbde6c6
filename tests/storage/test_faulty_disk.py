"""The writer of checkpoints and rows on a file system of which every call may fail, or be the last.

Whatever fails, and wherever the process ends, the folder is readable: its newest checkpoint is whole, it is the one
before or the one that was being written, and another process goes on from there.
"""

import errno
import gc
import io
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sbeed.storage import run_dir, safe_write
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, Snapshot, steps_of
from sbeed.storage.run_dir import RunDir
from sbeed.storage.tensor_folder import MODEL

INTERVAL, CAPACITY = 3, 10
LIKE = {"V": np.zeros(3, np.float32)}
ROW_LIKE = {"obs": np.zeros(1, np.float32)}


class Ended(BaseException):
    """The process is no more: nothing that comes after it, no `finally` either, reaches the disk."""


class Faults(NamedTuple):
    """What happens to a call, by its number: the error that it fails with; the last one is the process's end."""

    errors: dict
    end: int


class Disk:
    """Counts the calls, lets them fail, and after the end does nothing."""

    def __init__(self, faults):
        self.faults, self.calls, self.over = faults, 0, False

    def call(self, real, half=None):
        def called(*args, **named):
            if self.over:
                raise Ended
            number, self.calls = self.calls, self.calls + 1
            if number == self.faults.end:
                self.over = True
                if half is not None:
                    half(*args, **named)
                raise Ended
            if (
                number in self.faults.errors
            ):  # of a write that fails the kernel takes nothing; one cut short does not fail
                raise OSError(self.faults.errors[number], os.strerror(self.faults.errors[number]))
            return real(*args, **named)

        return called

    @contextmanager
    def mounted(self):
        """os's own calls and those of files that are opened to be written."""
        names = ("rename", "mkdir", "unlink", "rmdir", "fsync")
        before, opened = {name: getattr(os, name) for name in names}, io.open
        disk = self

        class File(io.FileIO):
            def write(self, content):
                content = bytes(content)
                whole = super().write
                torn = lambda some: whole(some[: len(some) // 2])
                return disk.call(whole, torn)(content)

        def opens(path, mode="r", *args, **named):
            if mode in ("wb", "xb", "ab", "r+b") and not isinstance(path, int):
                return io.BufferedWriter(self.call(File)(path, mode.replace("r+b", "r+")))
            if isinstance(path, int) and "b" in mode and mode != "rb":
                return io.BufferedWriter(File(path, mode))
            return opened(path, mode, *args, **named)

        for name, real in before.items():
            setattr(os, name, self.call(real))
        io.open = opens
        try:
            yield
        finally:
            for name, real in before.items():
                setattr(os, name, real)
            io.open = opened


def _snapshot(step):
    rows = lambda n: {"obs": np.arange(step - n, step, dtype=np.float32)[None]}
    return Snapshot(step, {"step": step}, {"V": np.full(3, step, np.float32)}, min(step, CAPACITY), rows)


def _check_whole(run, step):
    found, saved = Checkpoint(run, step), _snapshot(step)
    jax.tree.map(np.testing.assert_array_equal, found.state(LIKE), saved.state)
    jax.tree.map(np.testing.assert_array_equal, found.newest(ROW_LIKE), saved.newest(saved.held))


ERRORS = st.sampled_from([errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES])
FAULTS = st.builds(
    Faults, st.dictionaries(st.integers(0, 120), ERRORS, max_size=3), st.integers(0, 150)
)  # fmt: skip


@settings(max_examples=150, deadline=None, derandomize=True)
@given(faults=FAULTS)
def test_at_every_cut_the_newest_checkpoint_is_whole_and_at_most_one_interval_is_lost(faults):
    with tempfile.TemporaryDirectory() as text:
        run, saved, tried = Path(text) / "run", 0, 0
        disk = Disk(faults)
        try:
            with disk.mounted():
                store = Checkpoints(run)
                for step in range(INTERVAL, 7 * INTERVAL, INTERVAL):
                    tried = step
                    store.save(_snapshot(step))
                    saved = step
        except (Ended, OSError):
            pass
        there = steps_of(run)
        newest = max(there, default=0)
        assert newest in (saved, tried), (there, saved, tried)
        for step in there[-1:]:
            _check_whole(run, step)
        store = Checkpoints(run, resumed=newest)
        assert not list(run.rglob(".*"))
        for step in (newest + INTERVAL, newest + 2 * INTERVAL):
            store.save(_snapshot(step))
            _check_whole(run, step)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(faults=FAULTS)
def test_at_every_cut_there_is_a_whole_model(faults):
    with tempfile.TemporaryDirectory() as text:
        model, saved, tried = Path(text) / "model", -1, -1
        disk = Disk(faults)
        try:
            with disk.mounted():
                for step in range(6):
                    tried = step
                    MODEL.save(model, {"V": np.full(3, step, np.float32)}, {"step": step})
                    saved = step
        except (Ended, OSError):
            pass
        if model.exists() or saved >= 0:
            step = MODEL.read_manifest(model)["step"]
            assert step in (saved, tried)
            np.testing.assert_array_equal(MODEL.load(model, LIKE)["V"], np.full(3, step))


# Files of a process that has ended, which nobody closes.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
@settings(max_examples=60, deadline=None, derandomize=True)
@given(faults=FAULTS)
def test_at_every_cut_the_rows_that_were_told_to_be_written_are_there(faults):
    with tempfile.TemporaryDirectory() as text:
        run, told = Path(text) / "run", 0
        try:
            with Disk(faults).mounted(), RunDir(run) as place:
                place.begin({"env": "x"})
                place.open([0])
                for step in range(30):
                    place.append([{"seed": 0, "step": step}])
                    told += 1
        except (Ended, OSError):
            pass
        gc.collect()
        rows = run_dir.read_rows(run) if (run / run_dir.METRICS).exists() else []
        assert [row["step"] for row in rows][:told] == list(range(told))
        assert len(rows) <= told + 1


def test_the_faults_are_where_the_writers_call():
    with tempfile.TemporaryDirectory() as text:
        disk = Disk(Faults({}, -1))
        with disk.mounted():
            store = Checkpoints(Path(text) / "run")
            for step in range(INTERVAL, 7 * INTERVAL, INTERVAL):
                store.save(_snapshot(step))
        assert disk.calls > 120


@settings(max_examples=100, deadline=None, derandomize=True)
@given(faults=FAULTS, content=st.binary(max_size=200))
def test_a_file_is_the_old_one_or_the_new_one(faults, content):
    with tempfile.TemporaryDirectory() as text:
        path = Path(text) / "file.txt"
        path.write_bytes(b"old")
        try:
            with Disk(faults).mounted():
                safe_write.write_file(path, content)
        except (Ended, OSError):
            assert path.read_bytes() in (b"old", content)
        else:
            assert path.read_bytes() == content
            assert [one.name for one in path.parent.iterdir()] == ["file.txt"]
