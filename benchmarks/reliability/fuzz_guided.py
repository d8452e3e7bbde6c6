"""Every reader of files, fuzzed by what looks at the code that it reaches (atheris)."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from benchmarks.processes import ROOT
from benchmarks.reliability import fuzz
from benchmarks.reliability.trial import Trial, attempt, require

NAME = "fuzz_guided"
MUST = "as fuzz"
COUNT = len(fuzz.READERS)
LIMIT = None
SECONDS = 60
ABOUT = f"""\
Each reader of `fuzz` for {SECONDS} seconds in a process of its own, by inputs that lead to code that none before them
reached. What a reader raises but a refusal ends it. Seconds: of the whole process.
"""
_tried: list[str] = []


def notes() -> list[str]:
    return [f"Inputs: {', '.join(_tried)}."]


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    names = list(fuzz.READERS)
    for seed in seeds:
        name = names[seed % len(names)]
        yield attempt(name, seed, lambda name=name: _fuzzed(name))


def _fuzzed(name: str) -> None:
    words = [sys.executable, "-m", "benchmarks.reliability.fuzz_program", name, str(SECONDS)]
    variables = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    require(done.returncode == 0, done.stderr[-2000:])
    last = [line.split()[0].strip("#") for line in done.stderr.splitlines() if line.startswith("#")]
    _tried.append(f"{name} {int(last[-1]):,}")
