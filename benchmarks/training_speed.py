"""Environment steps per second of `default` while it learns, against SAC of Stable-Baselines3 and of SBX."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from benchmarks.processes import CORES, System, alternately, rounds
from benchmarks.rows import OURS, Line, Measurement, faster, find, row

NAME = "training_speed"
ABOUT = """\
The preset at the peers' width, 256 x 256 (its own is 128 x 128). Slices of training in turn, after the warm-up and
compilation, without evaluations. Peers have their own defaults but for the warm-up, which is ours, so that all sample
among as many transitions. Ours takes its updates in rounds, a peer by default after each step; "in our rounds" is SBX
with as many steps, then as many updates, as ours.
"""
ENV = "HalfCheetah-v5"
WIDE = '{"hidden": [256, 256]}'


class Peer(NamedTuple):
    library: str
    goal: float | None
    our_rounds: bool = False


PEERS = {
    "SB3 SAC": Peer("sb3", 2.0),
    "SBX SAC": Peer("sbx", 1.15),
    "SBX SAC in our rounds": Peer("sbx", None, our_rounds=True),
}


def measure(quick: bool) -> list[Measurement]:
    slice_ = 8 if quick else 2048
    with ExitStack() as stack:
        ours = stack.enter_context(System("ours_training", ENV, "--seeds", 0, "--fields", WIDE))
        warmup, round_ = ours.hello["warmup"], ours.hello["settings"]["in rounds of"]
        systems = {OURS: ours}
        for name, peer in PEERS.items():
            schedule = ["--round", round_] if peer.our_rounds else []
            arguments = [peer.library, "sac", ENV, CORES, "--warmup", warmup, *schedule]
            systems[name] = stack.enter_context(System("peer", *arguments, peer=True))
        for system in systems.values():
            system.ask("train", steps=warmup + slice_)  # until everything is compiled
        answers = alternately(systems, rounds(quick), "train", steps=slice_)
        hellos = {name: system.hello for name, system in systems.items()}
    return [
        row(
            NAME,
            name,
            "steps/s",
            [answer["steps"] / answer["seconds"] for answer in answers[name]],
            settings={"env": ENV, **hello["settings"], "steps of a slice": slice_, "threads": CORES},
            versions=hello.get("versions", ""),
        )
        for name, hello in hellos.items()
    ]


def lines(rows: Sequence[Measurement]) -> list[Line]:
    ours = find(rows, OURS)
    return [
        faster(f"training on {ENV}, against {name}", ours, find(rows, name), peer.goal) for name, peer in PEERS.items()
    ]
