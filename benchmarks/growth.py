"""How an update's time grows: with the batch, with k, with features, with agents; and the exponent of each."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from benchmarks.processes import CORES, System, rounds
from benchmarks.rows import OURS, UNMEASURED, Line, Measurement, quantity, row, verdict

NAME = "growth"
ABOUT = """\
Time of one update: medians, and as bands the range, of rounds over all sizes. (a), (b): V and the dual of the paper's
preset on segments of 128 transitions, each of which starts a target. (c): the policy's natural-gradient step. (d): one
update of every agent of a population of `default`. The exponent is the slope of log seconds over log size.

![Growth](growth.png)
"""


class Growth(NamedTuple):
    title: str
    xlabel: str
    sizes: tuple[int, ...]
    quick: tuple[int, ...]
    batch: int = 0  # where it is not what grows
    quick_batch: int = 0


PANELS = {
    "batch": Growth("Batch", "transitions in a batch", (1_000, 2_000, 5_000, 10_000, 20_000, 40_000), (512, 1_024)),
    "k": Growth("Longest target", "steps k of a target", (1, 3, 10, 30, 100), (1, 100), 20_000, 1_280),
    "features": Growth(
        "Features", "random features of the policy", (100, 200, 500, 1_000, 2_000), (50, 100), 8_192, 1_280
    ),
    "agents": Growth("Agents", "agents of a population", (1, 2, 4, 8, 16, 32, 64), (1, 2), 256, 256),
}
MOST_FOR_K = 1.5


def measure(quick: bool) -> list[Measurement]:
    return [row for name in PANELS for row in _measure(name, quick)]


def _measure(name: str, quick: bool) -> list[Measurement]:
    panel = PANELS[name]
    sizes, batch = (panel.quick, panel.quick_batch) if quick else (panel.sizes, panel.batch)
    replay = 2_048 if quick else 32_768
    times: dict[int, list[float]] = {size: [] for size in sizes}
    device = "" if name == "agents" else "cpu"
    with System("growing", name, replay, batch, *sizes, device=device) as system:
        for _ in range(rounds(quick)):
            for size in sizes:
                times[size].append(system.ask("update", size=size)["seconds"])
        device = system.hello["device"]
    settings = {"replay": replay, "batch": batch or "grows", "threads": CORES}
    return [
        row(NAME, OURS, "s", values, case=name, size=size, settings=settings, device=device)
        for size, values in times.items()
    ]


def curve(rows: Sequence[Measurement], panel: str) -> tuple[np.ndarray, np.ndarray]:
    """Sizes, and the median seconds of an update."""
    some = sorted((row for row in rows if row["case"] == panel), key=lambda row: row["size"])
    return np.array([row["size"] for row in some], float), np.array([median(row["values"]) for row in some])


def exponent(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of log y over log x, by least squares over all sizes."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def lines(rows: Sequence[Measurement]) -> list[Line]:
    return [_exponent_line(rows, name) for name in PANELS] + [_k_line([row for row in rows if row["case"] == "k"])]


def _exponent_line(rows: Sequence[Measurement], name: str) -> Line:
    x, y = curve(rows, name)
    sizes = PANELS[name].sizes
    if not len(x):
        return Line(f"update's growth with {name}, {sizes[0]:,} to {sizes[-1]:,}", "–", "–", "–", "–", UNMEASURED)
    device = next(row["device"] for row in rows if row["case"] == name)
    what = f"update's growth with {name}, {x[0]:,.0f} to {x[-1]:,.0f}" + (f", on {device}" if device != "cpu" else "")
    return Line(
        what, f"{quantity(y[0], 's')} to {quantity(y[-1], 's')}", "–", f"exponent {exponent(x, y):.2f}", "–", "–"
    )


def _k_line(rows: Sequence[Measurement]) -> Line:
    what, goal = "update at k = 100 over k = 1, same transitions", f"≤ {MOST_FOR_K:g}x"
    if not rows:
        return Line(what, "–", "–", "–", goal, UNMEASURED)
    _, (first, *_, last) = curve(rows, "k")
    met = last <= MOST_FOR_K * first
    return Line(what, quantity(last, "s"), quantity(first, "s"), f"{last / first:.2f}x", goal, verdict(met, *rows))
