"""Learning from what our own agents did, in slices: each command goes on where it was broken off.

python -m benchmarks.offline.medium record hopper medium --policy runs/hopper-150000
python -m benchmarks.offline.medium fit hopper medium offline --minutes 20
python -m benchmarks.offline.medium peer hopper medium td3+bc --seed 0 --minutes 20

Datasets, runs and the peers' models lie in out/offline; what is finished becomes rows of results/offline. A population
goes on bit for bit, a peer with other draws of its batches.
"""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import rows
from benchmarks.__main__ import commit, machine
from benchmarks.offline import page
from benchmarks.offline.__main__ import write
from benchmarks.processes import D3RLPY, ROOT, System
from sbeed import __version__, load_dataset
from sbeed.collect.actor import Evaluator
from sbeed.collect.sources import make_host
from sbeed.data.dataset import Dataset
from sbeed.storage.datasets import fingerprint
from sbeed.storage.run_dir import is_run, read_rows

OUT, RESULTS = ROOT / "out/offline", ROOT / "results/offline"
STOPPED = (143, -15)  # by our SIGTERM, in good order
EPISODES = 20  # of a final score


class Setting(NamedTuple):
    env: str
    gamma: float


TASKS = {"hopper": Setting("Hopper-v5", 0.995), "halfcheetah": Setting("HalfCheetah-v5", 0.99)}
KINDS = ("medium", "medium-replay")
# pi begins as the clone and, with steps of 0, stays.
SYSTEMS: dict[str, list[str]] = {
    "offline": ["--preset", "offline"],
    "default": ["--preset", "default"],
    "clone": ["--preset", "offline", "--pi-step-size", "0", "--clone-steps", "20000", "--updates", "1"],
}
PEERS = ("td3+bc", "cql")


def record(place: Path, task: Setting, given: argparse.Namespace) -> None:
    """The behaviour's own row goes with the dataset: it is what the others are held against."""
    asked = ["--env", task.env, "--steps", str(given.steps), "--seed", str(given.seed), "--policy"]
    if not (place / "data").exists():
        sbeed("record", *asked, *given.policy, "--out", str(place / "data"))
    data = load_dataset(place / "data")
    names = data.origin["policies"]
    told = {"command": " ".join(["sbeed record", *asked, *names]), "transitions": len(data)}
    add(given, data, "behaviour", given.seed, {**told, "return": float(data.returns.mean())})


def fit(place: Path, task: Setting, given: argparse.Namespace) -> None:
    """A population, one member for each seed."""
    sizes = [str(size) for size in given.hidden]
    run = place / "_".join([given.system, "x".join(sizes)])
    if is_run(run):
        finished = sbeed("resume", str(run), "--data", str(place / "data"), minutes=given.minutes)
    else:
        asked = ["--eval-env", task.env, "--gamma", str(task.gamma), "--seeds", str(given.seeds), "--hidden", *sizes]
        long = ["--updates", str(given.updates), "--evaluate-every", "10000", "--final-episodes", str(EPISODES)]
        words = ["fit", str(place / "data"), "--out", str(run), *asked, *long, *SYSTEMS[given.system]]
        finished = sbeed(*words, minutes=given.minutes)
    found = read_rows(run)
    print(f"{run.name}: {found[-1]['step'] if found else 0} updates", "" if finished else "; the same command goes on")
    for row in (row for row in found if finished and row["final"]):
        curve = [[one["step"], one["return"]] for one in found if one["seed"] == row["seed"]]
        told = {"hidden": given.hidden, "updates": row["step"], "return": row["return"], "curve": curve}
        add(given, load_dataset(place / "data"), given.system, row["seed"], told)


def peer(place: Path, task: Setting, given: argparse.Namespace) -> None:
    """d3rlpy learns in its own environment and is asked for its actions; it plays the episodes that ours play."""
    data, arrays, model = load_dataset(place / "data"), place / "arrays.npz", place / f"{given.system}_{given.seed}.pt"
    if not arrays.exists():
        d = data.data
        names = {"observations": d.obs, "actions": d.action, "rewards": d.reward, "terminals": d.terminated}
        np.savez(arrays, **names, timeouts=d.last & ~d.terminated)
    words = (given.system, arrays, model, "--seed", given.seed, "--gamma", task.gamma)
    with System("offline_peer", *words, peer=True, python=D3RLPY) as running:
        done = running.ask("train", updates=given.updates, seconds=60 * given.minutes)["updates"]
        print(f"{model.stem}: {done} updates", "" if done >= given.updates else "; the same command goes on")
        if done >= given.updates:
            evaluator = Evaluator(partial(make_host, task.env), given.seed)
            returns, _ = evaluator.play(Asked(running), EPISODES)  # type: ignore[arg-type]
            told = {"updates": done, "return": float(np.mean(returns)), **running.hello["told"]}
            add(given, data, given.system, given.seed, told)


class Asked:
    """A policy in another process; its actions are the environment's, whose box is [-1, 1]."""

    def __init__(self, system: System):
        self.system = system

    def mode(self, obs: np.ndarray) -> np.ndarray:
        return np.array(self.system.ask("act", obs=obs.tolist())["action"], np.float32)

    def squash(self, action: np.ndarray) -> np.ndarray:
        return np.clip(action, -1, 1)


def sbeed(*words: str, minutes: float | None = None) -> bool:
    """The command in a process of its own, stopped after so many minutes; whether it came to its end."""
    process = subprocess.Popen([sys.executable, "-m", "sbeed", *words])
    try:
        code = process.wait(None if minutes is None else 60 * minutes)
    except subprocess.TimeoutExpired:
        process.terminate()
        code = process.wait()
    if code not in (0, *STOPPED):
        raise SystemExit(code)
    return code == 0


def add(given: argparse.Namespace, data: Dataset, system: str, seed: int, told: Mapping[str, Any]) -> None:
    """The row takes the place of an older one of the same; the page is written anew."""
    name = {"study": page.MEDIUM, "task": given.task, "kind": given.kind, "system": system, "seed": seed}
    row = {**name, "data": fingerprint(data), **told, "commit": commit(), "machine": machine(), "sbeed": __version__}
    same = ("study", "task", "kind", "system", "seed", "hidden")
    file = given.results / "rows.jsonl"
    others = [old for old in rows.read(file) if any(old.get(key) != row.get(key) for key in same)]
    rows.write(file, [*others, row])
    write(given.results)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline.medium", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for act in (record, fit, peer):
        one = commands.add_parser(act.__name__, help=act.__doc__)
        one.set_defaults(act=act)
        one.add_argument("task", choices=TASKS)
        one.add_argument("kind", choices=KINDS)
        one.add_argument("--out", type=Path, default=OUT)
        one.add_argument("--results", type=Path, default=RESULTS)
        if act is not record:
            one.add_argument("system", choices=SYSTEMS if act is fit else PEERS)
            one.add_argument("--updates", type=int, default=300_000)
            one.add_argument("--minutes", type=float, default=20, help="of this slice")
        if act is fit:
            one.add_argument("--seeds", type=int, default=page.SEEDS)
            one.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
        else:
            one.add_argument("--seed", type=int, default=0)
        if act is record:
            one.add_argument("--steps", type=int, default=300_000)
            one.add_argument("--policy", nargs="+", required=True, help="random, or runs' directories")
    given = parser.parse_args(words)
    given.act(given.out / f"{given.task}-{given.kind}", TASKS[given.task], given)


if __name__ == "__main__":
    main()
