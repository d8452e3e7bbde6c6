"""Disks that take nothing more."""

import os
import random
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.reliability import runs
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage.checkpoints import steps_of

NAME = "disk"
MUST = "one line with bytes needed and free, exit code 2, the last checkpoint intact"
COUNT = 30
LIMIT = None
ABOUT = """\
A run that was broken off goes on where a file may not grow beyond a limit (RLIMIT_FSIZE), on a small file system
(tmpfs) that is filled up to a few kB, or on one that is mounted read-only. Whatever was refused first, a checkpoint, a
row, an event, the curve, a model or the lock, must end it with exit code 2 and one line, with the bytes that it takes
and that are free. The checkpoint that it went on from must be there, and once there is room again the run must go on
from what is left and end bit-equal to one never stopped. Seconds: until it is refused.
"""

STEPS, BROKEN_AT = 100, 40
ENV = "Pendulum-v1"
_skipped: set[str] = set()


def notes() -> list[str]:
    return [
        f"No file system may be mounted here: {kind} was tried with a file-size limit." for kind in sorted(_skipped)
    ]


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        runs.sbeed(*runs.command(place / "never", ENV, STEPS))
        runs.break_off(place / "broken", ENV, BROKEN_AT, steps=STEPS)
        expected = runs.fingerprint(place / "never")
        for seed in seeds:
            rng = random.Random(seed)
            kind = rng.choice(("a full file system", "a read-only directory", "a file-size limit"))
            if kind != "a file-size limit" and not may_mount():
                _skipped.add(kind)
                kind = "a file-size limit"
            yield _trial(place, kind, rng, seed, expected)


def _trial(place: Path, kind: str, rng: random.Random, seed: int, expected: dict) -> Trial:
    size = rng.randrange(0, 12_000)
    with tempfile.TemporaryDirectory(dir=place) as text:
        if kind == "a file-size limit":
            run = runs.copy(place / "broken", Path(text) / "run")
            return attempt(f"{kind}, {size} bytes", seed, lambda: _refused(run, limited(size), expected))
        with _mounted(Path(text)) as mount:
            run = runs.copy(place / "broken", mount / "run")
            hurt = _filled(mount, size) if kind == "a full file system" else _read_only(mount)
            return attempt(f"{kind}, {size} bytes", seed, lambda: _refused(run, hurt, expected))


def _refused(run: Path, hurt: AbstractContextManager, expected: dict) -> float:
    before = {name: content for name, content in runs.files(run).items() if "_000000032" in name}
    assert before  # the newest checkpoint and its part
    begin = time.perf_counter()
    with hurt:
        said = runs.sbeed("resume", run)
        seconds = time.perf_counter() - begin
    require((said.code, said.err.count("\n")) == (2, 1), f"exit code {said.code}: {said.err}")
    told = re.search(r"it takes [\d,]+ bytes, [\d,]+ are free", said.err)
    require(told is not None, f"no bytes in: {said.err}")
    after = runs.files(run)
    newest = steps_of(run)[-1]
    kept = newest > 32 or all(after.get(name) == content for name, content in before.items())
    require(kept, "the checkpoint that it went on from is not what it was")
    said = runs.sbeed("resume", run)
    require((said.code, said.err) == (0, ""), f"with room again, exit code {said.code}: {said.err}")
    different = runs.difference(runs.fingerprint(run), expected)
    require(not different, f"not the uninterrupted run's: {different}")
    return seconds


@contextmanager
def limited(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    usual = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # else the signal ends the process
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, usual)


# ------------------------------------------------------------------------------------------------- file systems


def may_mount() -> bool:
    with tempfile.TemporaryDirectory() as place:
        if subprocess.run(_mount_words(Path(place)), check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", place], check=True)
        return True


def _mount_words(place: Path) -> list[str]:
    return ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]


@contextmanager
def _mounted(place: Path) -> Iterator[Path]:
    subprocess.run(_mount_words(place), check=True)
    try:
        yield place
    finally:
        # Lazily: a file that a failed run could not close is closed when its process ends.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextmanager
def _filled(mount: Path, left: int) -> Iterator[None]:
    """Up to so many bytes, in whole pages."""
    free = os.statvfs(mount)
    ballast = mount / "ballast"
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - left)))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def _read_only(mount: Path) -> Iterator[None]:
    subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(mount)], check=True)
