"""Five agents: one process with all of them against five processes at the same time, on the same cores."""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.processes import CORES, SETTLE, System, rounds
from benchmarks.rows import OURS, Line, Measurement, faster, find, row

NAME = "population"
ABOUT = """\
Environment steps per second, summed over the agents; the five processes work at the same time.
"""
ENV, MEMBERS = "HalfCheetah-v5", 5
SOLO = "five processes"


def measure(quick: bool) -> list[Measurement]:
    workers = MEMBERS if CORES > MEMBERS else 0
    return race(NAME, quick, device="cpu", workers=workers, theirs=sorted(os.sched_getaffinity(0)))


def race(
    name: str, quick: bool, *, device: str, workers: int, theirs: Sequence[int], case: str = ""
) -> list[Measurement]:
    """device, workers: of the population, which may use every core. theirs: the cores of the five processes."""
    slice_ = 8 if quick else 1024
    seeds = range(MEMBERS)
    with ExitStack() as stack:
        together = stack.enter_context(
            System("ours_training", ENV, "--seeds", *seeds, "--workers", workers, device=device)
        )
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, theirs)  # which those inherit that are started now
        try:
            alone = [stack.enter_context(System("ours_training", ENV, "--seeds", seed)) for seed in seeds]
        finally:
            os.sched_setaffinity(0, cores)
        threads = {OURS: len(cores), SOLO: len(theirs)}
        sides = {OURS: [together], SOLO: alone}
        for systems in sides.values():
            _summed_speed(systems, together.hello["warmup"] + slice_)  # until everything is compiled
        speeds: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(rounds(quick)):
            for side, systems in sides.items():
                speeds[side].append(_summed_speed(systems, slice_))
        hellos = {side: systems[0].hello for side, systems in sides.items()}
    return [
        row(
            name,
            side,
            "steps/s",
            speeds[side],
            case=case,
            settings={
                "env": ENV,
                "agents": MEMBERS,
                **hello["settings"],
                "steps of a slice": slice_,
                "threads": threads[side],
            },
            device=hello["device"],
        )
        for side, hello in hellos.items()
    ]


def _summed_speed(systems: Sequence[System], steps: int) -> float:
    """Steps per second of all agents of these processes, which work at the same time until the last one is done."""
    time.sleep(SETTLE)
    begin = time.perf_counter()
    for system in systems:
        system.tell("train", steps=steps)
    taken = [system.answer()["steps"] for system in systems]
    return MEMBERS * taken[0] / (time.perf_counter() - begin)


def lines(rows: Sequence[Measurement]) -> list[Line]:
    what = f"population of {MEMBERS}, against {MEMBERS} processes on the same cores"
    return [faster(what, find(rows, OURS), find(rows, SOLO), 1.0)]
