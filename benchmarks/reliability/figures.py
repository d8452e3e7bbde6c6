"""Workers of a figure are killed while it is made, again and again."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.reliability import kin, runs
from benchmarks.reliability.trial import Trial, attempt, require

NAME = "figure"
MUST = "every run finishes once, with the rows of an undisturbed figure"
COUNT = 2
LIMIT = None
ABOUT = """\
`sbeed figure off-policy` at the small size, 35 runs, by processes of this machine (even seeds) and by a Ray (odd
seeds). Every 20 seconds one of its workers, whichever it is, gets `kill -9`: the process of a run, or the one of Ray
that waits for it. The command must end with exit code 0, and each run must have every row of an undisturbed figure
once, bit for bit but for clocks. Seconds: of the whole command.
"""

EVERY = 20.0  # seconds
WORKERS = ("sbeed.experiments.process", "ray::_work")
_kills: list[int] = []  # of each trial


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    _kills.clear()
    with tempfile.TemporaryDirectory() as place:
        expected = _rows(_figure(Path(place) / "undisturbed", "local", random.Random(), every=None))
        for seed in seeds:
            executor, out = ("local", "ray")[seed % 2], Path(place) / str(seed)
            yield attempt(executor, seed, partial(_disturb, out, executor, seed, expected))


def notes() -> list[str]:
    return [f"Workers killed, trial by trial: {' '.join(map(str, _kills))}."]


def _disturb(out: Path, executor: str, seed: int, expected: dict[str, Any]) -> None:
    rows = _rows(_figure(out, executor, random.Random(seed), EVERY))
    require(rows.keys() == expected.keys(), f"{len(rows)} runs finished, of {len(expected)}")
    different = [run for run in rows if rows[run] != expected[run]]
    require(not different, f"other rows in {different}")


def _figure(out: Path, executor: str, rng: random.Random, every: float | None) -> Path:
    """Make it, with a kill every so many seconds."""
    words = ["figure", "off-policy", "--executor", executor, "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "sbeed", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    kills, err = 0, ""
    while process.poll() is None:
        try:
            _, err = process.communicate(timeout=every)
        except subprocess.TimeoutExpired:
            kills += _kill_one(process.pid, rng)
    if every:
        _kills.append(kills)
    require(process.returncode == 0, f"exit code {process.returncode}: {err[-500:]}")
    return out


def _kill_one(command: int, rng: random.Random) -> bool:
    """Whether there was a worker to kill."""
    workers = [pid for pid in kin.family(command) if any(word.startswith(WORKERS) for word in kin.words_of(pid))]
    if not workers:
        return False
    with suppress(ProcessLookupError):  # it was quicker
        os.kill(rng.choice(workers), signal.SIGKILL)
    return True


def _rows(out: Path) -> dict[str, Any]:
    """Of each run that is over, all rows without clocks."""
    over = [path.parent for path in sorted(out.glob("runs/*/result.json"))]
    require(all(json.loads((run / "result.json").read_text())["outcome"] == "finished" for run in over), "one diverged")
    return {run.name: runs.rows_without_clocks(run) for run in over}
