"""README.md and the table: pure functions of rows."""

from collections.abc import Iterable, Sequence
from types import ModuleType

from benchmarks import (
    acting,
    agent_speed,
    gpu,
    growth,
    natural_gradient,
    paper_update,
    population,
    replay_memory,
    start,
    time_to_return,
    training_speed,
)
from benchmarks.markdown import aligned
from benchmarks.rows import Line, Measurement

BENCHMARKS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        paper_update,
        natural_gradient,
        training_speed,
        agent_speed,
        time_to_return,
        population,
        gpu,
        replay_memory,
        acting,
        start,
        growth,
    )
}
BUSY = 0.1  # share of the cores' time that went elsewhere before a measurement: times are not to be trusted

TEXT = """\
# Benchmarks

Written by `make bench` from rows.jsonl beside it; do not edit. How it is measured:
[docs/benchmarks.md](../../docs/benchmarks.md).

Ours and a peer are measured in turn, in one run, on the same cores, with the same number of threads. A ratio is that of
the medians; the range in brackets is over the pairs measured next to each other. More than 1x is better.
"""


def of(rows: Iterable[Measurement], name: str) -> list[Measurement]:
    return [row for row in rows if row["name"] == name]


def table(rows: Sequence[Measurement]) -> str:
    lines = [line for name, module in BENCHMARKS.items() for line in module.lines(of(rows, name))]
    return aligned([Line("what", "ours", "the other", "measured", "goal", "verdict"), *lines])


def readme(rows: Sequence[Measurement]) -> str:
    parts = [TEXT, *_warnings(rows), table(rows)]
    for name, module in BENCHMARKS.items():
        if some := of(rows, name):
            parts += [f"## {name}\n", module.ABOUT, _settings(some), _origin(some)]
    return "\n".join(parts)


def _warnings(rows: Sequence[Measurement]) -> list[str]:
    quick = sorted({row["name"] for row in rows if row["quick"]})
    busy = sorted({row["name"] for row in rows if row["busy"] > BUSY})
    return [
        *([f"**Quick runs, whose numbers mean nothing: {', '.join(quick)}.**\n"] if quick else []),
        *([f"**Something else was running on the machine during {', '.join(busy)}.**\n"] if busy else []),
    ]


def _settings(rows: Sequence[Measurement]) -> str:
    """What sets the arithmetic, of each system; those that share theirs are on one line."""
    shared: dict[str, list[str]] = {}
    for row in rows:
        named = row["system"] + (f" ({row['versions']})" if row.get("versions") else "")
        named += f", {row['case']}" if row["case"] else ""
        what = ", ".join(f"{name} {value}" for name, value in row["settings"].items())
        shared.setdefault(what, [])
        if named not in shared[what]:
            shared[what].append(named)
    return "".join(f"- {'; '.join(systems)}: {what}.\n" for what, systems in shared.items())


def _origin(rows: Sequence[Measurement]) -> str:
    def device(row: Measurement) -> str:
        return "" if row.get("device", "cpu") == "cpu" else f", {row['device']}"

    places = dict.fromkeys(f"Measured at {row['commit']} on {row['machine']}{device(row)}." for row in rows)
    return "\n".join(places) + "\n"
