"""The paper-sized update of V and the dual: ours, N of them in one program, against the same arithmetic in torch."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.processes import CORES, System, alternately, rounds
from benchmarks.rows import OURS, UNMEASURED, Line, Measurement, faster, find, quantity, row, typical, verdict

NAME = "paper_update"
ABOUT = """\
Steps of V and of the dual on L_eta, k-step targets from every transition of a segment, windows drawn from a replay
inside the update; no step of the policy. Ours runs `updates` of them in one compiled program and scores the replayed
actions with a policy of one feature; torch reads log pi from memory, shares every forward pass that can be shared and
takes fused Adam. The peak is the best large square product of numpy, jax and torch, the multiply-adds of the update
are counted by hand. That torch does the same is seen in the losses of ten updates on the same windows.
"""
# kappa between 0 and 1, so that V, its slow copy and V's gradient through both states count: nothing to leave out.
SETTING = {
    "batch": 20_000,
    "segment": 64,
    "k": 10,
    "eta": 0.1,
    "kappa": 0.5,
    "lam": 0.01,
    "gamma": 0.995,
    "slow_rate": 0.01,
    "step_size": 0.001,
    "updates": 20,
    "replay": 32_768,
}
OBSERVATIONS, ACTIONS, WIDTH = 17, 6, 64
PEAK = "matmul peak"
GOALS = {"torch eager": 2.0, "torch.compile": 1.5}
SHARE = 0.65  # of the peak
AGREEMENT = 1e-3  # of losses, relative: float32 sums in another order


def measure(quick: bool) -> list[Measurement]:
    setting = {**SETTING, "batch": 2_000, "updates": 3, "replay": 4_096} if quick else SETTING
    with tempfile.TemporaryDirectory() as folder:
        shared = json.dumps(setting), Path(folder) / "arrays.npz"
        with System("ours_update", *shared) as ours:
            ours.hello  # noqa: B018  by now the arrays are there
            with (
                System("torch_update", *shared, CORES, peer=True) as eager,
                System("torch_update", *shared, CORES, "--compile", peer=True) as compiled,
            ):
                systems = {OURS: ours, **dict(zip(GOALS, (eager, compiled)))}
                difference = disagreement(systems, setting)  # first, which compiles what there is to compile
                times = alternately(systems, rounds(quick), "updates")
                peak = alternately(systems, rounds(quick), "matmul", size=512 if quick else 4096)
                versions = eager.hello["versions"]
    about = {**setting, "networks": f"V and rho 2 x {WIDTH} tanh", "threads": CORES, "precision": "float32"}
    found = [
        row(NAME, system, "s", [answer["seconds"] for answer in answers], settings=about)
        for system, answers in times.items()
    ]
    for each in found[1:]:
        each |= {"versions": versions, "difference": difference[each["system"]]}
    rates = [max(answers) for answers in zip(*([a["rate"] for a in some] for some in peak.values()))]
    return [*found, row(NAME, PEAK, "multiply-adds/s", rates, settings={"best of": "numpy, jax and torch"})]


def disagreement(systems: dict[str, System], setting: dict) -> dict[str, float]:
    """Largest relative difference between the losses of ours and a peer's over ten updates on the same windows."""
    segments, length = setting["batch"] // setting["segment"], setting["segment"]
    starts = np.random.default_rng(0).integers(setting["replay"] - length, size=(10, segments)).tolist()
    losses = {name: np.array(system.ask("losses", batches=starts)["losses"]) for name, system in systems.items()}
    return {name: float(np.max(np.abs(found / losses[OURS] - 1))) for name, found in losses.items()}


def multiply_adds(batch: int) -> int:
    """Of the matrix products of one update, by hand.

    A forward pass of a network n -> 64 -> 64 -> 1 takes n 64 + 64 64 + 64 for each transition. Its backward pass takes
    as many for the weights, and all but the first layer's again for what was in front of them.
    V: forward at s and s', its copy at s', backward at both; the dual: forward before and after its step, backward.
    """

    def forward(inputs: int) -> int:
        return inputs * WIDTH + WIDTH * WIDTH + WIDTH

    def backward(inputs: int) -> int:
        return 2 * forward(inputs) - inputs * WIDTH

    V, dual = OBSERVATIONS, OBSERVATIONS + ACTIONS
    return batch * (3 * forward(V) + 2 * backward(V) + 2 * forward(dual) + backward(dual))


def lines(rows: Sequence[Measurement]) -> list[Line]:
    ours, peers = find(rows, OURS), {peer: find(rows, peer) for peer in GOALS}
    compared = [faster(f"paper-sized update, against {peer}", ours, peers[peer], goal) for peer, goal in GOALS.items()]
    return [*compared, _share_of_peak(ours, find(rows, PEAK)), _agreement(list(peers.values()))]


def _share_of_peak(ours: Measurement | None, peak: Measurement | None) -> Line:
    what, goal = "paper-sized update, share of the matmul peak", f"{SHARE:.0%}"
    if ours is None or peak is None:
        return Line(what, "–", "–", "–", goal, UNMEASURED)
    settings = ours["settings"]
    work = multiply_adds(settings["batch"] // settings["segment"] * settings["segment"])
    best = max(peak["values"])
    share = work / median(ours["values"]) / best
    peaked = quantity(best / 1e9, "G multiply-adds/s")
    return Line(what, typical(ours), peaked, f"{share:.0%}", goal, verdict(share >= SHARE, ours, peak))


def _agreement(peers: list[Measurement | None]) -> Line:
    what, goal = "paper-sized update, losses against torch's", f"≤ {AGREEMENT:g}"
    known = [peer for peer in peers if peer is not None]
    if len(known) < len(peers):
        return Line(what, "–", "–", "–", goal, UNMEASURED)
    worst = max(peer["difference"] for peer in known)
    return Line(what, "–", "–", f"{worst:.0e} apart", goal, verdict(worst <= AGREEMENT, *known))
