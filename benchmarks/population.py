"""Five agents: one process with all of them against five processes at the same time, on the same cores.

Where ours has a GPU, the five processes have two of the machine's cores: what a user without one has.
"""

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.processes import CORES, SETTLE, System, rounds
from benchmarks.rows import OURS, Line, Row, faster, find, row

NAME = "population"
ABOUT = """\
Environment steps per second, summed over the agents; the five processes work at the same time. Where ours has a GPU
the cores are not the same: ours has all of them beside it, the five processes two.
"""
ENV, MEMBERS = "HalfCheetah-v5", 5
SOLO = "five processes"


def measure(quick: bool) -> list[Row]:
    slice_ = 8 if quick else 1024
    workers = MEMBERS if CORES > MEMBERS else 0
    seeds = range(MEMBERS)
    with ExitStack() as stack:
        together = stack.enter_context(
            System("ours_training", ENV, "--seeds", *seeds, "--workers", workers, device="")  # whatever jax finds
        )
        cores = sorted(os.sched_getaffinity(0))
        theirs = cores if together.hello["device"] == "cpu" else cores[-2:]
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
            NAME,
            side,
            "steps/s",
            speeds[side],
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


def lines(rows: Sequence[Row]) -> list[Line]:
    ours, solo = find(rows, OURS), find(rows, SOLO)
    on_gpu = ours is not None and ours["device"] != "cpu"
    cores = "two" if on_gpu else "the same"
    where = f" on {ours['device']}" if ours is not None and on_gpu else ""
    return [
        faster(
            f"population of {MEMBERS}{where}, against {MEMBERS} processes on {cores} cores",
            ours,
            solo,
            10.0 if on_gpu else 1.0,
        )
    ]
