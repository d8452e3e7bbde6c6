"""Many processes that begin a run in one directory at the same time."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.processes import ROOT
from benchmarks.reliability.trial import Trial, attempt, require

NAME = "simultaneous_starts"
MUST = "of 20 starts exactly one wins, the others are refused"
COUNT = 10
LIMIT = 1.0
ABOUT = """\
Twenty processes have imported what `sbeed train` needs before it takes its directory, and wait. Told to go, each asks
for the same directory; one must get it, the others must be told that it is taken. Even seeds: a new directory, odd
seeds: that of a run, to go on with. Seconds: the longest time, by the clock of a refused process, from being told to go
to having been refused.
"""

STARTS = 20
STARTER = """
import sys, time
from pathlib import Path
from sbeed.storage.run_dir import RunDir
print("ready", flush=True)
sys.stdin.readline()
begin = time.perf_counter()
try:
    with RunDir(Path(sys.argv[1]), resume=sys.argv[2] == "resume") as run:
        run.begin({})
        print("mine", flush=True)
        sys.stdin.readline()
except (BlockingIOError, FileExistsError) as error:
    print(time.perf_counter() - begin, flush=True)
"""


def trials(seeds: Sequence[int], starts: int = STARTS) -> Iterator[Trial]:
    for seed in seeds:
        what = "resume" if seed % 2 else "train"
        yield attempt(what, seed, lambda what=what: _race(what, starts))


def _race(what: str, starts: int) -> float:
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        if what == "resume":
            run.mkdir()
            (run / "config.yaml").write_text("{}\n")
        words = [sys.executable, "-c", STARTER, str(run), what]
        racers = [
            subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(starts)
        ]
        try:
            for racer in racers:
                require(_hear(racer) == "ready", "a process did not start")
            for racer in racers:
                _tell(racer)
            answers = [_hear(racer) for racer in racers]
        finally:
            for racer in racers:
                racer.communicate("done\n")
    require(answers.count("mine") == 1, f"{answers.count('mine')} of {starts} got the directory")
    return max(float(answer) for answer in answers if answer != "mine")


def _hear(racer: subprocess.Popen) -> str:
    assert racer.stdout
    return racer.stdout.readline().strip()


def _tell(racer: subprocess.Popen) -> None:
    assert racer.stdin
    racer.stdin.write("go\n")
    racer.stdin.flush()
