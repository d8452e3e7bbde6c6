"""`python -m benchmarks.baselines`: train what is missing, then write results/baselines. Takes hours."""

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks import rows
from benchmarks.__main__ import commit, machine
from benchmarks.baselines.compared import AGENTS, EPISODES, TASKS
from benchmarks.baselines.page import readme
from benchmarks.processes import ROOT, System
from benchmarks.rows import OURS, Measurement

OUT = ROOT / "results/baselines"
Training = tuple[str, str, str, tuple[int, ...]]  # system, agent, task, seeds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.baselines", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=AGENTS, default=list(AGENTS), help="agents")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--system", choices=("ours", "peer"), help="default: both")
    parser.add_argument("--at-once", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    file, origin = given.out / "rows.jsonl", {"commit": commit(), "machine": machine()}
    missing = [job for job in jobs(rows.read(file), given.only, given.tasks) if given.system in (None, side(job))]
    with ThreadPoolExecutor(given.at_once) as pool:
        for done in as_completed([pool.submit(trained, job) for job in missing]):
            found = [*rows.read(file), *(row | origin for row in done.result())]
            rows.write(file, sorted(found, key=lambda row: (row["agent"], row["task"], row["system"], row["seed"])))
            print(*(f"{r['system']} {r['agent']} {r['task']} {r['seed']}: {r['return']:.0f}" for r in done.result()))
    (given.out / "README.md").write_text(readme(rows.read(file)))


def side(job: Training) -> str:
    return "ours" if job[0] == OURS else "peer"


def jobs(done: list[Measurement], agents: list[str], tasks: list[str]) -> Iterator[Training]:
    """The seeds that are missing: of ours one population, of a peer a process for each."""
    known = {(row["system"], row["agent"], row["task"], row["seed"]) for row in done}
    for agent in agents:
        peer = AGENTS[agent].peer
        for task in tasks:
            ours, theirs = (
                tuple(seed for seed in range(AGENTS[agent].seeds[task]) if (system, agent, task, seed) not in known)
                for system in (OURS, peer)
            )
            if ours:
                yield OURS, agent, task, ours
            yield from ((peer, agent, task, (seed,)) for seed in theirs)


def trained(job: Training) -> list[Measurement]:
    """A row for each seed: the return of the final policy."""
    system, agent, task, seeds = job
    compared = AGENTS[agent]
    with process(job) as running:
        seconds = running.ask("train", steps=compared.steps)["seconds"]
        answer = running.ask("evaluate", episodes=EPISODES)
        hello = running.hello
    returns = answer.get("by_seed", [answer["return"]])
    shared = {
        "system": system,
        "agent": agent,
        "task": task,
        "steps": compared.steps,
        "seconds": round(seconds, 1),
        "settings": hello["settings"],
        "versions": hello.get("versions", ""),
    }
    return [{**shared, "seed": seed, "return": score} for seed, score in zip(seeds, returns, strict=True)]


def process(job: Training) -> System:
    system, agent, task, seeds = job
    if system == OURS:
        return System(
            "ours_training",
            task,
            "--agent",
            agent,
            "--seeds",
            *seeds,
            "--fields",
            json.dumps(AGENTS[agent].fields_on(task)),
        )
    return System("peer", AGENTS[agent].library, agent, task, 1, "--seed", *seeds, peer=True)


if __name__ == "__main__":
    main()
