"""fig:onpolicy_comparison: SBEED, TRPO and Dual-AC on data of their own policy, 52 trajectories an iteration."""

from sbeed.agents.shared.on_policy import TRAJECTORIES
from sbeed.experiments.figures.off_policy import TASKS
from sbeed.experiments.spec import Curve, Figure, panel_per_task
from sbeed.training.run import RunSpec

STEPS = 2_000_000
EVALUATE_EVERY = 50_000  # 52 episodes of 1000 steps: between two updates there is nothing new to see
PRESETS = {
    "SBEED": ("sbeed", "paper-on-policy"),
    "TRPO": ("trpo", "paper"),
    "Dual-AC": ("dual_ac", "paper"),
}


def _curve(task: str, label: str) -> Curve:
    agent, preset = PRESETS[label]
    rounds = {"trajectories_per_iteration": TRAJECTORIES}
    spec = RunSpec(
        task, agent, preset, steps=STEPS, fields=rounds, evaluate_every=EVALUATE_EVERY, checkpoint_every=10_000
    )
    return Curve(label, spec)


FIGURE = Figure(
    "on-policy",
    "On-policy comparison",
    panel_per_task(TASKS, PRESETS, _curve, over=("iteration", "step")),  # the first is the paper's
)
