"""fig:offpolicy_comparison in the paper's own setting: one policy on random features, one gamma, for every agent."""

from collections.abc import Mapping
from typing import Any

from sbeed.experiments.figures.scores import FIRST_SEED
from sbeed.experiments.spec import Curve, Figure, panel_per_task
from sbeed.training.run import RunSpec

TASKS = ("Pendulum-v1", "InvertedDoublePendulum-v5", "HalfCheetah-v5", "Swimmer-v5", "Hopper-v5")
GAMMA = 0.995
# TRPO and Dual-AC: rounds as long as SBEED's, and V linear, as the paper has it.
ROUNDS: Mapping[str, Any] = {"policy": "rbf", "V": "linear"}
AGENTS: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "SBEED": ("sbeed", "paper", {}),
    "SBEED, exact dual": ("sbeed", "paper-exact", {}),
    "PCL": ("pcl", "paper", {}),
    "TRPO": ("trpo", "default", ROUNDS),
    "Dual-AC": ("dual_ac", "default", ROUNDS),
    "DDPG": ("ddpg", "paper", {}),
}


def _curve(task: str, label: str) -> Curve:
    agent, preset, fields = AGENTS[label]
    features = {"features": 500 if task.startswith("HalfCheetah") else 100}
    spec = RunSpec(task, agent, preset, fields={"gamma": GAMMA, **features, **fields}, checkpoint_every=10_000)
    return Curve(label, spec)


FIGURE = Figure(
    "off-policy",
    "Off-policy comparison",
    panel_per_task(TASKS, AGENTS, _curve, over=("step", "iteration")),  # the second is the paper's
    FIRST_SEED,
)
