"""The policy's natural-gradient step with 500 random features, against XLA's sine and ten conjugate-gradient steps."""

import json
from collections.abc import Sequence

from benchmarks.processes import CORES, System, alternately, rounds
from benchmarks.rows import OURS, UNMEASURED, Line, Measurement, faster, find, row, verdict

NAME = "natural_gradient"
ABOUT = """\
The whole step of the policy on observations of HalfCheetah: score, Fisher matrix, direction, step under the KL cap.
Both take the same code but for the sine and the solver. The error is |x - x64| / |x64| of the direction, x64 from
features and a solve in float64 with the same ridge.
"""
PEER = "XLA sin + 10 CG"
# The ridge is the paper preset's own; with a smaller one conjugate gradients are further off.
SETTING = {"features": 500, "batch": 20_000, "segment": 64, "ridge": 0.1, "steps": 5, "replay": 32_768}


def measure(quick: bool) -> list[Measurement]:
    setting = {**SETTING, "batch": 2_048, "steps": 2, "replay": 4_096} if quick else SETTING
    with (
        System("policy_step", json.dumps(setting), "cholesky") as ours,
        System("policy_step", json.dumps(setting), "conjugate gradients") as peer,
    ):
        systems = {OURS: ours, PEER: peer}
        times = alternately(systems, rounds(quick), "steps")
        errors = {name: system.ask("error")["error"] for name, system in systems.items()}
    settings = {**setting, "actions": 6, "threads": CORES, "precision": "float32"}
    return [
        row(NAME, name, "s", [answer["seconds"] for answer in answers], error=errors[name], settings=settings)
        for name, answers in times.items()
    ]


def lines(rows: Sequence[Measurement]) -> list[Line]:
    ours, peer = find(rows, OURS), find(rows, PEER)
    compared = faster("natural-gradient step, against XLA sin + 10 CG", ours, peer, 3.0)
    what, goal = "natural-gradient step, error over that of CG", 0.1
    if ours is None or peer is None:
        return [compared, Line(what, "–", "–", "–", f"≤ {goal:g}", UNMEASURED)]
    share = ours["error"] / peer["error"]
    errors = f"{ours['error']:.1e}", f"{peer['error']:.1e}"
    return [compared, Line(what, *errors, f"{share:.1e}", f"≤ {goal:g}", verdict(share <= goal, ours, peer))]
