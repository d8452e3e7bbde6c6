"""README.md and the table: pure functions of rows.

A row: name (the threat), seed (the first), tried, count (of a whole run), held, worst_seconds, kinds ({what: how
often}), failures ([{what, seed, why}]), notes; and where it comes from: commit, machine, versions.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType

from benchmarks.markdown import aligned
from benchmarks.reliability import (
    corruption,
    disk,
    figures,
    golden,
    hostile,
    kills,
    not_finite,
    starts,
    toggles,
    writer,
)
from benchmarks.rows import Measurement

THREATS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (kills, figures, writer, corruption, hostile, not_finite, starts, disk, toggles, golden)
}
TEXT = """\
# What a run survives

Written by `make bench-reliability` from rows.jsonl beside it; do not edit. A trial that did not hold would be listed
with its threat and the seed that does it again: `python -m benchmarks.reliability --only NAME --seed SEED --count 0`.
A smaller draw of each runs in `make test`.
"""


def table(rows: Iterable[Measurement]) -> str:
    found = {row["name"]: row for row in rows}
    lines = [_line(module, found.get(name)) for name, module in THREATS.items()]
    return aligned([["threat", "must hold", "seen", "worst", "verdict"], *lines])


def _line(module: ModuleType, row: Measurement | None) -> list[str]:
    if row is None:
        return [module.NAME, module.MUST, "–", "–", "not tried"]
    limit = "" if module.LIMIT is None else f" (≤ {module.LIMIT:g} s)"
    seen = f"{row['held']} of {row['tried']}" + ("" if row["tried"] >= row["count"] else f"; whole: {row['count']}")
    return [module.NAME, module.MUST, seen, _seconds(row["worst_seconds"]) + limit, _verdict(module, row)]


def _verdict(module: ModuleType, row: Measurement) -> str:
    """A share of the trials can show that something does not hold, and not that it does."""
    in_time = module.LIMIT is None or row["worst_seconds"] <= module.LIMIT
    if row["held"] < row["tried"] or not in_time:
        return "**broken**"
    return "holds" if row["tried"] >= row["count"] else "holds so far"


def _seconds(x: float) -> str:
    return f"{x:.2g} s" if x >= 0.1 else f"{x * 1e3:.2g} ms"


def readme(rows: Sequence[Measurement]) -> str:
    found = {row["name"]: row for row in rows}
    parts = [TEXT, table(rows)]
    for name, module in THREATS.items():
        if row := found.get(name):
            parts += [f"## {name}\n", module.ABOUT, _kinds(row), *_notes(row), *_failures(row), _origin(row)]
    return "\n".join(parts)


def _kinds(row: Measurement) -> str:
    return "Tried: " + "; ".join(f"{what} {times}x" for what, times in row["kinds"].items()) + ".\n"


def _notes(row: Measurement) -> list[str]:
    return ["".join(f"- {note}\n" for note in row["notes"])] if row["notes"] else []


def _failures(row: Measurement) -> list[str]:
    if not row["failures"]:
        return []
    return ["**Did not hold:**\n", "".join(f"- seed {f['seed']}, {f['what']}: {f['why']}\n" for f in row["failures"])]


def _origin(row: Measurement) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in row["versions"].items())
    return f"Tried at {row['commit']} with seeds from {row['seed']}, on {row['machine']}; {versions}.\n"
