"""`python -m benchmarks.offline`: rows that are missing in results/offline are measured, and the page is written."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import rows
from benchmarks.__main__ import commit, machine
from benchmarks.offline import garnet, learning, loading, page, values
from benchmarks.offline.figure import offline_figure
from benchmarks.rows import Measurement
from sbeed import __version__
from sbeed.reporting import plots

STUDIES: dict[str, Callable[[int], Measurement]] = {
    **{
        f"{name}, {preset}": partial(learning.measure, name, preset)
        for name in learning.STUDIES
        for preset in ("offline", "default")
    },
    "garnet": garnet.measure,
    "garnet, networks": garnet.measure_networks,
    **{f"values, {name}": partial(values.measure, name) for name in values.TASKS},
    "loading": loading.measure,
    "epoch": loading.measure_epoch,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/offline"))
    parser.add_argument("--only", choices=STUDIES, action="append", help="this study, done again; may be repeated")
    parser.add_argument("--seeds", type=int, default=page.SEEDS)
    parser.add_argument("--page", action="store_true", help="write the page from the rows that there are")
    given = parser.parse_args()
    file = given.out / "rows.jsonl"
    for name in () if given.page else given.only or STUDIES:
        for seed in range(given.seeds):
            if given.only or not any(_is(row, name, seed) for row in rows.read(file)):
                row = {**STUDIES[name](seed), "commit": commit(), "machine": machine(), "sbeed": __version__}
                rows.write(file, [*(old for old in rows.read(file) if not _is(old, name, seed)), row])
                print(f"{name}, seed {seed}", flush=True)
    write(given.out)
    print(given.out / "README.md")


def write(out: Path) -> None:
    """The page and its figure, from the rows that there are."""
    found = rows.read(out / "rows.jsonl")
    (out / "README.md").write_text(page.readme(found))
    plots.save(offline_figure(found), out / "offline")


def _is(row: Measurement, name: str, seed: int) -> bool:
    known = f"{row['study']}, {row['preset']}" if "preset" in row else row["study"]
    return (known, row["seed"]) == (name, seed)


if __name__ == "__main__":
    main()
