"""Memory of a full replay of a million HalfCheetah transitions."""

from collections.abc import Sequence

from benchmarks.processes import System
from benchmarks.rows import OURS, Line, Measurement, at_most, find, row

NAME = "replay_memory"
ABOUT = """\
Bytes of the arrays, and by how much the resident memory of a fresh process grows at the most while it creates the
replay and fills it in chunks; programs are compiled before. MB are millions of bytes.
"""
ARRAYS, PEAK = "arrays", "peak"
LIMITS = {ARRAYS: 170.0, PEAK: 200.0}
CHUNK = 64


def measure(quick: bool) -> list[Measurement]:
    capacity = 64_000 if quick else 1_000_000
    with System("replay", capacity, CHUNK) as system:
        found = system.ask("fill")
    settings = {"transitions": capacity, "observations": 17, "actions": 6, "chunk": CHUNK}
    return [row(NAME, OURS, "MB", [found[case] / 1e6], case=case, settings=settings) for case in LIMITS]


def lines(rows: Sequence[Measurement]) -> list[Line]:
    return [
        at_most(f"replay of 1M HalfCheetah transitions, {case}", find(rows, OURS, case), limit, "MB")
        for case, limit in LIMITS.items()
    ]
