"""Rows of what was measured, and the arithmetic of comparing them. Everything on the page is computed from rows.

A row: name (the benchmark), system, case; unit and values, in the order in which they were measured; settings;
and where it comes from: commit, machine, busy, quick.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

Measurement = dict[str, Any]

OURS = "sbeed"
UNMEASURED = "not measured"


def row(
    name: str, system: str, unit: str, values: Sequence[float | None], *, case: str = "", **more: Any
) -> Measurement:
    return {"name": name, "system": system, "case": case, "unit": unit, "values": list(values), **more}


def read(path: Path) -> list[Measurement]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: Path, rows: Iterable[Measurement]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def find(rows: Iterable[Measurement], system: str, case: str = "") -> Measurement | None:
    return next((row for row in rows if row["system"] == system and row["case"] == case), None)


class Ratio(NamedTuple):
    """How many times better ours is; the extremes are over pairs that were measured next to each other."""

    value: float
    lowest: float
    highest: float


def ratio(ours: Measurement, other: Measurement) -> Ratio:
    """Of medians. Of times the other's over ours, of rates ours over the other's."""
    above, below = (ours, other) if ours["unit"].endswith("/s") else (other, ours)
    pairs = [a / b for a, b in zip(above["values"], below["values"], strict=True)]
    return Ratio(median(above["values"]) / median(below["values"]), min(pairs), max(pairs))


class Line(NamedTuple):
    """One line of the table."""

    what: str
    ours: str
    other: str
    measured: str
    goal: str
    verdict: str


def faster(what: str, ours: Measurement | None, other: Measurement | None, goal: float | None) -> Line:
    """Ours against another system; the goal is a ratio of at least so much, None where there is none."""
    aim = "–" if goal is None else f"{goal:g}x"
    if ours is None or other is None:
        return Line(what, "–", "–", "–", aim, UNMEASURED)
    found = ratio(ours, other)
    measured = f"{found.value:.2f}x ({found.lowest:.2f}–{found.highest:.2f})"
    judged = "–" if goal is None else verdict(found.value >= goal, ours, other)
    return Line(what, typical(ours), typical(other), measured, aim, judged)


def at_most(what: str, ours: Measurement | None, limit: float, unit: str) -> Line:
    """Ours against a limit."""
    return _held(what, ours, f"≤ {quantity(limit, unit)}", lambda value: value <= limit)


def at_least(what: str, ours: Measurement | None, limit: float, unit: str) -> Line:
    return _held(what, ours, f"≥ {quantity(limit, unit)}", lambda value: value >= limit)


def _held(what: str, ours: Measurement | None, goal: str, met: Callable[[float], bool]) -> Line:
    """The spread is over the repetitions."""
    if ours is None:
        return Line(what, "–", "–", "–", goal, UNMEASURED)
    values, unit = ours["values"], ours["unit"]
    spread = f" ({quantity(min(values), unit)}–{quantity(max(values), unit)})" if len(values) > 1 else ""
    return Line(what, typical(ours), "–", typical(ours) + spread, goal, verdict(met(median(values)), ours))


def verdict(met: bool, *rows: Measurement) -> str:
    """Rows of a quick run decide nothing."""
    return "quick" if any(row["quick"] for row in rows) else "**met**" if met else "missed"


def typical(row: Measurement) -> str:
    return quantity(median(row["values"]), row["unit"])


def quantity(x: float, unit: str) -> str:
    """A number with its unit, in three digits."""
    if unit == "s" and x < 1:
        x, unit = (x * 1e3, "ms") if x >= 1e-3 else (x * 1e6, "us")
    return f"{x:.3g} {unit}".strip() if abs(x) < 1000 else f"{x:,.0f} {unit}".strip()
