"""`python -m benchmarks.reliability`: hurt runs, then write rows.jsonl and README.md."""

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from benchmarks import rows
from benchmarks.__main__ import commit, machine
from benchmarks.processes import ROOT
from benchmarks.reliability.page import THREATS, Measurement, readme, table
from benchmarks.reliability.trial import Trial
from sbeed.storage.tensors import versions


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reliability", description="Hurt runs; write the page.")
    parser.add_argument("--only", nargs="+", choices=THREATS, default=list(THREATS), metavar="NAME")
    parser.add_argument("--count", type=float, default=1.0, metavar="SHARE", help="of the trials; 0: one of each")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial; the next ones follow")
    parser.add_argument("--out", type=Path, default=ROOT / "results/reliability")
    given = parser.parse_args()
    for name in given.only:
        print(f"{name} ...", flush=True)
        row = row_of(THREATS[name], given.seed, given.count)
        for failure in row["failures"]:
            print(f"  seed {failure['seed']}, {failure['what']}: {failure['why']}", flush=True)
        save(given.out, row)
    print(table(rows.read(given.out / "rows.jsonl")))
    print(given.out)


def seeds_of(module: ModuleType, seed: int, share: float) -> range:
    return range(seed, seed + max(1, round(share * module.COUNT)))


def row_of(module: ModuleType, seed: int, share: float) -> Measurement:
    seeds = seeds_of(module, seed, share)
    origin = {"commit": commit(), "machine": machine(), "versions": versions()}
    found: list[Trial] = []
    with suppress(KeyboardInterrupt):  # what was tried until then counts, and the row says how much that is
        for trial in module.trials(seeds):
            found.append(trial)
    return summary(module, seeds, found) | origin


def summary(module: ModuleType, seeds: range, found: Sequence[Trial]) -> Measurement:
    """What is told of a trial before its first comma is its kind."""
    failures = [{"what": one.what, "seed": one.seed, "why": one.why} for one in found if one.why]
    kinds = Counter(one.what.partition(",")[0] for one in found)
    return {
        "name": module.NAME,
        "seed": seeds.start,
        "count": module.COUNT,
        "tried": len(found),
        "held": len(found) - len(failures),
        "worst_seconds": round(max(one.seconds for one in found), 4),
        "kinds": dict(sorted(kinds.items())),
        "failures": failures,
        "notes": module.notes() if hasattr(module, "notes") else [],
    }


def save(out: Path, new: Measurement) -> None:
    """Its row takes the place of the threat's old one; the others stay."""
    file = out / "rows.jsonl"
    by_name = {row["name"]: row for row in (*rows.read(file), new)}
    ordered = [by_name[name] for name in THREATS if name in by_name]
    rows.write(file, ordered)
    (out / "README.md").write_text(readme(ordered))


if __name__ == "__main__":
    main()
