"""The paper's comparison with what is recommended today: networks, and the defaults of every agent."""

from sbeed.experiments.figures.off_policy import TASKS
from sbeed.experiments.figures.scores import FIRST_SEED, GAMMAS
from sbeed.experiments.spec import Curve, Figure, panel_per_task
from sbeed.training.run import RunSpec

AGENTS = {"SBEED": "sbeed", "SAC": "sac", "DDPG": "ddpg", "TRPO": "trpo"}


def _curve(task: str, label: str) -> Curve:
    gamma = {"gamma": GAMMAS[task]} if task in GAMMAS else {}
    return Curve(label, RunSpec(task, AGENTS[label], fields=gamma, checkpoint_every=10_000))


FIGURE = Figure("today", "Today's defaults", panel_per_task(TASKS, AGENTS, _curve, over=("step",)), FIRST_SEED)
