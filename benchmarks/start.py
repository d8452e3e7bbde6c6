"""From the command to the first update, with an empty and with a filled compilation cache."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import CORES, rounds
from benchmarks.rows import OURS, Line, Measurement, at_most, find, row

NAME = "start"
ABOUT = """\
A fresh process of `sbeed train` with the warm-up of the preset, until the row after the first round of updates is
written: one evaluation episode is in it, so this is an upper bound. Cold and warm in turn.
"""
ENV = "Pendulum-v1"
LIMITS = {"cold": 10.0, "warm": 3.0}


def measure(quick: bool) -> list[Measurement]:
    from sbeed.agents.registry import SBEED
    from sbeed.envs.task import spec_of

    config = SBEED.preset("default", spec_of(ENV))
    times: dict[str, list[float]] = {case: [] for case in LIMITS}
    for _ in range(1 if quick else rounds(quick)):
        with tempfile.TemporaryDirectory() as cache:
            for case in ("cold", "warm"):
                times[case].append(_seconds_to_first_update(first_update(config), Path(cache)))
    settings = {"env": ENV, "preset": "default", "warm-up": config.warmup, "threads": CORES}
    return [row(NAME, OURS, "s", values, case=case, settings=settings) for case, values in times.items()]


def first_update(config: Any) -> int:
    """The step at the end of the first round that has updates; with `overlap` those wait for a round more."""
    rounds_of_warmup = -(-config.warmup // config.steps_per_iteration)
    return (rounds_of_warmup + config.overlap) * config.steps_per_iteration


def _seconds_to_first_update(step: int, cache: Path) -> float:
    """Until the run's first row is there, which is asked for right after that update."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        options = {"env": ENV, "evaluate-every": step, "episodes": 1, "out": out}
        command = [
            sys.executable,
            "-m",
            "sbeed",
            "train",
            *(w for o in options.items() for w in (f"--{o[0]}", str(o[1]))),
        ]
        variables = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
        variables |= {"XDG_CACHE_HOME": str(cache), "JAX_PLATFORMS": "cpu"}
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
        try:
            while not (found := _first_line(out / "metrics.jsonl")):
                if process.poll() is not None:
                    raise RuntimeError(f"{command}: ended with exit code {process.returncode}")
                time.sleep(0.005)
            seconds = time.perf_counter() - begin
        finally:
            process.kill()
            process.wait()
    if json.loads(found).get("V_error") is None:
        raise RuntimeError(f"no update by step {step}")
    return seconds


def _first_line(path: Path) -> str:
    text = path.read_text() if path.exists() else ""
    return text.partition("\n")[0] if "\n" in text else ""


def lines(rows: Sequence[Measurement]) -> list[Line]:
    return [
        at_most(f"first update of `sbeed train`, {case} compilation cache", find(rows, OURS, case), limit, "s")
        for case, limit in LIMITS.items()
    ]
