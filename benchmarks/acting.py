"""Acting in one environment: microseconds for an action of the policies on the host, on one thread."""

import json
from collections.abc import Sequence

from benchmarks.processes import System, alternately, rounds
from benchmarks.rows import OURS, UNMEASURED, Line, Measurement, at_most, find, row, verdict

NAME = "acting"
ABOUT = """\
A draw of a random action and its squashing, for one observation after another. The difference is that of the
deterministic action, over 1000 observations.
"""
CASES = {
    "RBF policy, 100 features": ({"policy": "rbf", "size": 100}, 10e-6),
    "RBF policy, 500 features": ({"policy": "rbf", "size": 500}, 10e-6),
    "MLP policy, 256 x 256": ({"policy": "mlp", "size": 256}, 25e-6),
}
AGREEMENT = 1e-5


def measure(quick: bool) -> list[Measurement]:
    found = []
    for case, (setting, _) in CASES.items():
        with System("acting", json.dumps(setting), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1") as system:
            answers = alternately({OURS: system}, rounds(quick), "act", times=500 if quick else 20_000)[OURS]
            difference = system.ask("difference")["difference"]
        settings = {**setting, "observations": 17, "actions": 6, "threads": 1}
        seconds = [answer["seconds"] for answer in answers]
        found.append(row(NAME, OURS, "s", seconds, case=case, settings=settings, difference=difference))
    return found


def lines(rows: Sequence[Measurement]) -> list[Line]:
    found = {case: find(rows, OURS, case) for case in CASES}
    times = [at_most(f"action of an {case}", found[case], limit, "s") for case, (_, limit) in CASES.items()]
    what, goal = "actions, largest difference from the jitted policy", f"≤ {AGREEMENT:g}"
    known = [row for row in found.values() if row is not None]
    if len(known) < len(CASES):
        return [*times, Line(what, "–", "–", "–", goal, UNMEASURED)]
    worst = f"{max(row['difference'] for row in known):.1e}"
    met = all(row["difference"] <= AGREEMENT for row in known)
    return [*times, Line(what, worst, "–", worst, goal, verdict(met, *known))]
