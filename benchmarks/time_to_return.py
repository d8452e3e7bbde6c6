"""Seconds of training until an evaluation reaches a return, against SAC of Stable-Baselines3 and of SBX.

Takes hours, so it has a target of its own, `make bench-learning`, and goes on where it was interrupted.
"""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.processes import CORES, System
from benchmarks.rows import OURS, UNMEASURED, Line, Measurement, quantity, row, verdict

NAME = "time_to_return"
ABOUT = """\
Wall time from the start of the process, imports, compilation with an empty cache and random warm-up included, to the
first evaluation (5 episodes, deterministic) whose mean reaches the return; evaluations themselves are not counted.
Medians over the seeds, and in brackets the extremes over them; ">" is a cap that ended a run. Peers have their own
defaults; ours is `default`, with gamma .995 on Hopper. The curves, [seconds, steps, return], are in rows.jsonl.
Runs that take hours are not made in one go: each row has its own commit, machine and cap. Those of a task are all of
one kind of machine, on which nothing else was running.
"""
EPISODES, SEEDS = 5, 3
PEERS = {"SB3 SAC": ("sb3", 5.0), "SBX SAC": ("sbx", 3.0)}


class Race(NamedTuple):
    goal: float  # mean return of an evaluation
    every: int  # steps between evaluations
    cap: float  # seconds
    ours: tuple[str, ...] = ()  # what differs from the preset


TASKS = {
    "Pendulum-v1": Race(-200, 512, 600),
    "HalfCheetah-v5": Race(3000, 2048, 3600),
    "Hopper-v5": Race(1000, 2048, 3600, ("--fields", '{"gamma": 0.995}')),
}
QUICK = {"Pendulum-v1": Race(-200, 64, 40)}


def measure(quick: bool, done: Sequence[Measurement]) -> Iterator[Measurement]:
    """One run after another, each alone on the cores; those that are done are not run again."""
    known = {(row["system"], row["case"], row["seed"]) for row in done if row["quick"] == quick}
    for seed in range(1 if quick else SEEDS):
        for env, task in (QUICK if quick else TASKS).items():
            for name in (OURS, *PEERS):
                if (name, env, seed) not in known:
                    yield _run(name, env, task, seed)


def _run(name: str, env: str, task: Race, seed: int) -> Measurement:
    if name == OURS:
        system = System("ours_training", env, "--seeds", seed, *task.ours)
    else:
        system = System("peer", PEERS[name][0], "sac", env, CORES, "--seed", seed, peer=True)
    with system:
        hello = system.hello
        seconds, steps, curve = hello["seconds"], 0, []
        while not reached(curve, task.goal) and seconds < task.cap:
            slice_ = system.ask("train", steps=task.every)
            seconds, steps = seconds + slice_["seconds"], steps + slice_["steps"]
            score = system.ask("evaluate", episodes=EPISODES)["return"]
            curve.append([round(seconds, 2), steps, round(score, 2)])
    return row(
        NAME,
        name,
        "s",
        [seconds if reached(curve, task.goal) and seconds <= task.cap else None],
        case=env,
        seed=seed,
        goal=task.goal,
        cap=task.cap,
        curve=curve,
        settings={**hello["settings"], "evaluated every": task.every, "episodes": EPISODES, "threads": CORES},
        versions=hello.get("versions", ""),
    )


def reached(curve: Sequence[Sequence[float]], goal: float) -> bool:
    """curve: [seconds, steps, return] of every evaluation."""
    return bool(curve) and curve[-1][2] >= goal


def lines(rows: Sequence[Measurement]) -> list[Line]:
    return [
        _compared(f"{env} to {task.goal:g}, against {peer}", times(rows, OURS, env), times(rows, peer, env), goal, rows)
        for env, task in TASKS.items()
        for peer, (_, goal) in PEERS.items()
    ]


class Time(NamedTuple):
    seconds: float
    reached: bool  # or the cap stands here, and the true time is longer

    def __str__(self) -> str:
        return ("" if self.reached else "> ") + quantity(self.seconds, "s")


def times(rows: Sequence[Measurement], system: str, env: str) -> dict[int, Time]:
    """Of each seed."""
    some = [row for row in rows if row["system"] == system and row["case"] == env]
    return {row["seed"]: Time(row["values"][0] or row["cap"], row["values"][0] is not None) for row in some}


def typical(times: dict[int, Time]) -> Time:
    """The median; a bound below it if a cap ended a run before the median, whose own time may be above."""
    middle = median(time.seconds for time in times.values())
    return Time(middle, all(time.reached or time.seconds > middle for time in times.values()))


def _compared(
    what: str, ours: dict[int, Time], peer: dict[int, Time], goal: float, rows: Sequence[Measurement]
) -> Line:
    both = ours.keys() & peer.keys()
    if not both:
        return Line(what, "–", "–", "–", f"{goal:g}x sooner", UNMEASURED)
    ours, peer = ({seed: some[seed] for seed in both} for some in (ours, peer))
    what += "" if len(both) >= SEEDS else f", {len(both)} of {SEEDS} seeds"
    our_time, peer_time = typical(ours), typical(peer)
    value = peer_time.seconds / our_time.seconds
    pairs = sorted((peer[seed].seconds / ours[seed].seconds, peer[seed].reached) for seed in ours)
    shortest, longest = (f"{_bound(reached)}{ratio:.2f}" for ratio, reached in (pairs[0], pairs[-1]))
    measured = f"{_bound(peer_time.reached)}{value:.2f}x ({shortest}–{longest})" if our_time.reached else "not reached"
    met = our_time.reached and value >= goal
    return Line(what, str(our_time), str(peer_time), measured, f"{goal:g}x sooner", verdict(met, *rows))


def _bound(reached: bool) -> str:
    """Before a ratio to a peer that the cap may have stopped."""
    return "" if reached else "≥ "
