"""README.md: a pure function of rows."""

import json
from collections.abc import Sequence

import numpy as np

from benchmarks.baselines.compared import AGENTS, EPISODES, SHARE, TASKS
from benchmarks.markdown import aligned
from benchmarks.processes import ROOT
from benchmarks.rows import OURS, UNMEASURED, Measurement
from sbeed.reporting import stats

ORIGIN = ("versions", "commit", "machine")
RANDOM = ROOT / "results/learning/random.json"
TEXT = """\
# Baselines beside their peers

Written by `python -m benchmarks.baselines` from rows.jsonl beside it; do not edit.

Our agents with MLP policies and the peer's hyper-parameters, the peer with its defaults (DDPG, which has no noise of
its own, with white noise of .1). The return is that of the final policy, deterministic, {episodes} episodes; mean over
the seeds with a 95% interval (Student's t). *Of the peer's* is our mean over the peer's, both measured from what random
actions earn; the goal is {share:.0%}.
Rows of an H200 are of agents that ran on it, the peer's too. Ours takes steps and updates in rounds of 64, the
off-policy peers one after the other.

"""


def readme(rows: Sequence[Measurement]) -> str:
    table = [("agent", "task", "steps", "seeds", "ours", "the peer", "of the peer's", "verdict")]
    table += [line(rows, agent, task) for agent in AGENTS for task in TASKS]
    return TEXT.format(episodes=EPISODES, share=SHARE) + aligned(table) + "\n" + "".join(map(about, settings(rows)))


def line(rows: Sequence[Measurement], agent: str, task: str) -> tuple[str, ...]:
    compared = AGENTS[agent]
    ours, peer = (returns(rows, system, agent, task) for system in (OURS, compared.peer))
    head = (f"{agent} against {compared.peer}", task, f"{compared.steps:,}", str(compared.seeds[task]))
    if not all(len(side) == compared.seeds[task] for side in (ours, peer)):
        return (*head, "–", "–", "–", UNMEASURED)
    random = json.loads(RANDOM.read_text())[task]["return"]
    share = (np.mean(ours) - random) / (np.mean(peer) - random)
    verdict = "**met**" if share >= SHARE else "missed"
    return (*head, spread(ours), spread(peer), f"{share:.0%}", verdict)


def returns(rows: Sequence[Measurement], system: str, agent: str, task: str) -> list[float]:
    return [row["return"] for row in rows if (row["system"], row["agent"], row["task"]) == (system, agent, task)]


def spread(values: Sequence[float]) -> str:
    found = stats.mean(np.array(values))
    return f"{found.value:,.0f} ± {found.hi - found.value:,.0f}"


def settings(rows: Sequence[Measurement]) -> list[Measurement]:
    """One row of each system and agent, and of each origin and settings that its rows have."""
    key = lambda row: (row["agent"], row["system"], str(row["settings"]), *(row[name] for name in ORIGIN))
    return list({key(row): row for row in rows}.values())


def about(row: Measurement) -> str:
    words = ", ".join(f"{name} {value}" for name, value in row["settings"].items())
    versions = f" ({row['versions']})" if row["versions"] else ""
    return f"- {row['system']}, {row['agent']}{versions}: {words}. At {row['commit']} on {row['machine']}.\n"
