"""`python -m benchmarks`: measure, then write rows.jsonl, README.md and the figure."""

import argparse
import platform
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from benchmarks import growth, rows, time_to_return
from benchmarks.page import BENCHMARKS, of, readme, table
from benchmarks.processes import CORES, ROOT
from benchmarks.rows import Measurement


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and write the page.")
    usual = [name for name in BENCHMARKS if name != time_to_return.NAME]  # which takes hours
    parser.add_argument(
        "--only", nargs="+", choices=BENCHMARKS, default=usual, metavar="NAME", help=", ".join(BENCHMARKS)
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works; numbers mean nothing")
    parser.add_argument("--out", type=Path, help="default: results/bench, with --quick out/bench")
    given = parser.parse_args()
    out = given.out or ROOT / ("out/bench" if given.quick else "results/bench")
    for name in given.only:
        print(f"{name} ...", flush=True)
        measure(name, given.quick, out)
    print(table(rows.read(out / "rows.jsonl")))
    print(out)


def measure(name: str, quick: bool, out: Path) -> None:
    """New rows take the place of that benchmark's old ones, when all of them are there; other rows stay.

    So do the old ones where there is nothing to measure, a GPU's on a machine without one.
    """
    file = out / "rows.jsonl"
    origin = {"commit": commit(), "machine": machine(), "busy": busy(), "quick": quick}
    module = BENCHMARKS[name]
    if module is time_to_return:
        for new in time_to_return.measure(quick, of(rows.read(file), name)):
            save(out, [*rows.read(file), new | origin])  # each at once: an interrupted run goes on from here
    else:
        found = module.measure(quick)
        others = [row for row in rows.read(file) if row["name"] != name or not found]
        save(out, [*others, *(new | origin for new in found)])


def save(out: Path, found: Iterable[Measurement]) -> None:
    ordered = sorted(found, key=lambda row: list(BENCHMARKS).index(row["name"]))
    rows.write(out / "rows.jsonl", ordered)
    (out / "README.md").write_text(readme(ordered))
    if grown := of(ordered, growth.NAME):
        from benchmarks.figure import growth_figure
        from sbeed.reporting import plots

        plots.save(growth_figure(grown), out / "growth")


def commit() -> str:
    """With a + where what is measured is not what was committed."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "src", "benchmarks") else "")


def busy() -> float:
    """The share of the cores' time that goes elsewhere while we do nothing."""

    def idle_and_all() -> tuple[int, int]:
        ticks = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)

    idle, every = idle_and_all()
    time.sleep(2)
    idle_now, every_now = idle_and_all()
    return round(1 - (idle_now - idle) / (every_now - every), 2)


def machine() -> str:
    models = [
        line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return f"{models[0] if models else platform.machine()}, {CORES} cores, jax {version('jax')}"


if __name__ == "__main__":
    main()
