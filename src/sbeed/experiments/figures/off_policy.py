"""fig:offpolicy_comparison: SBEED and what it is compared with, each as recommended, and SBEED as in the paper too."""

from sbeed.experiments.spec import Curve, Figure, panel_per_task
from sbeed.training.run import RunSpec

TASKS = ("Pendulum-v1", "InvertedDoublePendulum-v5", "HalfCheetah-v5", "Swimmer-v5", "Hopper-v5")
GAMMAS = {"Hopper-v5": 0.995, "Swimmer-v5": 0.999}  # for every curve; elsewhere its preset's own
PRESETS = {
    "SBEED (paper)": ("sbeed", "paper"),
    "SBEED": ("sbeed", "default"),
    "PCL": ("pcl", "default"),
    "TRPO": ("trpo", "default"),
    "Dual-AC": ("dual_ac", "default"),
    "DDPG": ("ddpg", "default"),
    "SAC": ("sac", "default"),
}


def _curve(task: str, label: str) -> Curve:
    agent, preset = PRESETS[label]
    gamma = {"gamma": GAMMAS[task]} if task in GAMMAS else {}
    return Curve(label, RunSpec(task, agent, preset, fields=gamma, checkpoint_every=10_000))


FIGURE = Figure(
    "off-policy",
    "Off-policy comparison",
    panel_per_task(TASKS, PRESETS, _curve, over=("step", "iteration")),  # the second is the paper's
)
