"""kill -9 of a run at a random moment of its life, and going on."""

import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reliability import runs
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage.run_dir import is_run

NAME = "kill"
MUST = "every run goes on and ends bit-equal to one never stopped"
COUNT = 100
LIMIT = None
ABOUT = """\
A `sbeed train` process gets `kill -9` at a uniformly random moment of the life that an uninterrupted one had: while it
imports, compiles, trains, writes, evaluates, draws. In a third of the trials the process that goes on is killed too.
Then `sbeed resume` (or, if no run had begun, `sbeed train` again) must end with exit code 0 and no complaint; rows
without clocks, models, the last checkpoint and the replay must equal the uninterrupted run's. Seconds: of that last
process.
"""

CASES = {
    "Pendulum-v1": ("Pendulum-v1", 1000, ()),
    "Hopper-v5": ("Hopper-v5", 1000, ()),
    "HalfCheetah-v5": ("HalfCheetah-v5", 600, ()),
    "CartPole-v1": ("CartPole-v1", 1000, ()),
    "jax:pendulum": ("jax:pendulum", 4000, ()),
    "population of 2": ("Pendulum-v1", 600, ("--seeds", "2")),
}
LOOKS = ("--evaluate-every", "240", "--checkpoint-every", "96")


class Reference(NamedTuple):
    fingerprint: dict[str, Any]
    seconds: float  # of its life


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(_at_once()) as pool:
        bench = _Bench(Path(place))
        try:
            yield from pool.map(bench.trial, seeds)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)  # a caller that has enough does not wait for all of them


def _at_once() -> int:
    return len(os.sched_getaffinity(0))


class _Bench:
    """References are made when first needed, once the programs are compiled: a life is that of a warm start."""

    def __init__(self, place: Path):
        self.place, self.cache = place, place / "cache"
        self._references: dict[str, Reference] = {}
        self._making = {case: threading.Lock() for case in CASES}

    def reference(self, case: str) -> Reference:
        with self._making[case]:
            if case not in self._references:
                for name in ("cold", "warm"):
                    out, begin = self.place / f"{name} {case}", time.perf_counter()
                    self._finish(_command(case, out))
                    seconds = time.perf_counter() - begin
                self._references[case] = Reference(runs.fingerprint(out), seconds)
        return self._references[case]

    def trial(self, seed: int) -> Trial:
        rng = random.Random(seed)
        case, kills = rng.choice(list(CASES)), 2 if rng.random() < 1 / 3 else 1
        reference, run = self.reference(case), self.place / f"run_{seed}"
        moments = [rng.random() * reference.seconds for _ in range(kills)]
        what = f"{case}, killed after {' and '.join(f'{moment:.2f} s' for moment in moments)}"
        return attempt(what, seed, lambda: self._kill_and_resume(case, run, moments, reference))

    def _kill_and_resume(self, case: str, run: Path, moments: Sequence[float], reference: Reference) -> float:
        for moment in moments:
            process = runs.start(_next_command(case, run), self.cache)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=moment)
            runs.end(process)
        begin = time.perf_counter()
        self._finish(_next_command(case, run))
        seconds = time.perf_counter() - begin
        different = runs.difference(runs.fingerprint(run), reference.fingerprint)
        require(not different, f"not the uninterrupted run's: {different}")
        left = [path.name for path in run.rglob(".*")]
        require(not left, f"half-written files stayed: {left}")
        return seconds

    def _finish(self, words: Sequence[str]) -> None:
        process = runs.start(words, self.cache)
        _, err = process.communicate()
        # MuJoCo has its own complaints about Gymnasium's models.
        ours = [line for line in err.splitlines() if line and not line.startswith("WARNING: compiler attribute")]
        require(process.returncode == 0 and not ours, f"exit code {process.returncode}: {ours}")


def _next_command(case: str, run: Path) -> list[str]:
    return ["resume", str(run)] if is_run(run) else _command(case, run)


def _command(case: str, out: Path) -> list[str]:
    env, steps, more = CASES[case]
    return runs.command(out, env, steps, *LOOKS, *more)
