"""fig:offpolicy_comparison: SBEED and what it is compared with, each as recommended, and SBEED as in the paper too."""

from typing import Literal

from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

TASKS = ("Pendulum-v1", "InvertedDoublePendulum-v5", "HalfCheetah-v5", "Swimmer-v5", "Hopper-v5")
GAMMAS = {"Hopper-v5": 0.995, "Swimmer-v5": 0.999}  # for every algorithm; elsewhere its preset's own
ALGORITHMS = {
    "SBEED": "sbeed",
    "PCL": "pcl",
    "TRPO": "trpo",
    "Dual-AC": "dual_ac",
    "DDPG": "ddpg",
    "SAC": "sac",
}


def _curves(task: str) -> tuple[Curve, ...]:
    gamma = {"gamma": GAMMAS[task]} if task in GAMMAS else {}
    paper = Curve("SBEED (paper)", RunSpec(task, preset="paper", checkpoint_every=10_000))
    others = (
        Curve(label, RunSpec(task, agent, fields=gamma, checkpoint_every=10_000)) for label, agent in ALGORITHMS.items()
    )
    return (paper, *others)


AXES: tuple[Literal["step", "iteration"], ...] = ("step", "iteration")  # the second is the paper's
FIGURE = Figure(
    "off-policy",
    "Off-policy comparison",
    tuple(Panel(task, task, _curves(task), x) for x in AXES for task in TASKS),
)
