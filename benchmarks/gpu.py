"""What a GPU is worth: a population on it against processes on two cores, and many agents' updates."""

import os
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import population
from benchmarks.population import MEMBERS, SOLO
from benchmarks.processes import System, rounds
from benchmarks.rows import OURS, Line, Measurement, at_least, faster, find, row

NAME = "gpu"
ABOUT = """\
Where there is none, the rows of a machine that had one stay. *Population*: environment steps per second, summed over
five agents in one process with the GPU and every core beside it, against five processes on two of those cores, what a
user without a GPU has. *Agents*: updates per second, summed over a population of `default`, on data that lie on the
GPU, without environments.
"""
POPULATION, AGENTS = "population", "agents"
COUNT, BATCH = 64, 256


def measure(quick: bool) -> list[Measurement]:
    if backend() == "cpu":
        return []
    last_two = sorted(os.sched_getaffinity(0))[-2:]
    raced = population.race(NAME, quick, device="", workers=MEMBERS, theirs=last_two, case=POPULATION)
    return [*raced, _many_agents(quick)]


def backend() -> str:
    """The device that jax finds. Asked in a process of its own, because the asking process holds the GPU's memory."""
    code = "import jax; print(jax.default_backend())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _many_agents(quick: bool) -> Measurement:
    replay = 2_048 if quick else 32_768
    with System("growing", AGENTS, replay, BATCH, COUNT, device="") as system:
        seconds = [system.ask("update", size=COUNT)["seconds"] for _ in range(rounds(quick))]
        settings = {"agents": COUNT, "preset": "default", "batch": BATCH, "replay": replay}
        speeds = [COUNT / each for each in seconds]
        return row(NAME, OURS, "updates/s", speeds, case=AGENTS, settings=settings, device=system.hello["device"])


def lines(rows: Sequence[Measurement]) -> list[Line]:
    ours, solo = find(rows, OURS, POPULATION), find(rows, SOLO, POPULATION)
    where = ours["device"] if ours else "a GPU"
    return [
        faster(f"population of {MEMBERS} on {where}, against {MEMBERS} processes on two cores", ours, solo, 10.0),
        at_least(f"{COUNT} agents on {where}, summed updates", find(rows, OURS, AGENTS), 60_000, "updates/s"),
    ]
