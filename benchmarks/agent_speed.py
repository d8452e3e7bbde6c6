"""Environment steps per second of our TRPO and DDPG while they learn, against their peers, on one core."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.baselines.compared import AGENTS
from benchmarks.processes import System, alternately, rounds
from benchmarks.rows import OURS, Line, Measurement, faster, find, row

NAME = "agent_speed"
ABOUT = """\
Slices of training in turn, after the warm-up and compilation, without evaluations; every process is kept to the same
core. Hyper-parameters are the peer's (`benchmarks/baselines/compared.py`).
"""
ENV = "HalfCheetah-v5"
GOALS = {"trpo": 1.5, "ddpg": 2.0}


def measure(quick: bool) -> list[Measurement]:
    return [found for agent in GOALS for found in _measure(agent, quick)]


def _measure(agent: str, quick: bool) -> list[Measurement]:
    slice_ = 64 if quick else {"trpo": 16_384, "ddpg": 2_048}[agent]
    compared = AGENTS[agent]
    fields = compared.fields_on(ENV) | (
        {"steps_per_iteration": 64, "replay_capacity": 64} if quick and agent == "trpo" else {}
    )
    with on_one_core():
        ours = System("ours_training", ENV, "--agent", agent, "--seeds", 0, "--fields", json.dumps(fields))
        peer = System("peer", compared.library, agent, ENV, 1, peer=True)
    with ours, peer:
        systems = {OURS: ours, compared.peer: peer}
        for system in systems.values():
            system.ask("train", steps=ours.hello["warmup"] + slice_)  # until everything is compiled
        answers = alternately(systems, rounds(quick), "train", steps=slice_)
        return [
            row(
                NAME,
                name,
                "steps/s",
                [answer["steps"] / answer["seconds"] for answer in answers[name]],
                case=agent,
                settings={"env": ENV, **system.hello["settings"], "steps of a slice": slice_, "threads": 1},
                versions=system.hello.get("versions", ""),
            )
            for name, system in systems.items()
        ]


@contextmanager
def on_one_core() -> Iterator[None]:
    """Processes started here stay on it."""
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_of_them)


def lines(rows: Sequence[Measurement]) -> list[Line]:
    return [
        faster(
            f"{agent} on {ENV}, one core, against {AGENTS[agent].peer}",
            find(rows, OURS, agent),
            find(rows, AGENTS[agent].peer, agent),
            goal,
        )
        for agent, goal in GOALS.items()
    ]
