"""Scores of today's presets, on seeds that no search used.

One setting for all boxes of actions and one for all discrete ones; gamma alone differs by task.
"""

from collections.abc import Mapping
from typing import Any

from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

FIRST_SEED = 20
GAMMAS = {"Hopper-v5": 0.995, "Swimmer-v5": 0.999}
# Steps of `default`, and between evaluations.
TASKS: dict[str, tuple[int, int]] = {
    "Pendulum-v1": (20_000, 5_000),
    "CartPole-v1": (20_000, 5_000),
    "Acrobot-v1": (50_000, 10_000),
    "FrozenLake-v1": (50_000, 10_000),
    "InvertedDoublePendulum-v5": (300_000, 20_000),
    "Hopper-v5": (1_000_000, 20_000),
    "HalfCheetah-v5": (1_000_000, 20_000),
    "Walker2d-v5": (1_000_000, 20_000),
    "Swimmer-v5": (1_000_000, 20_000),
    "Ant-v5": (300_000, 20_000),
    "Humanoid-v5": (300_000, 20_000),
}
MOST_BESIDE = 300_000  # steps of what `default` is compared with
BESIDE: dict[str, tuple[str, str]] = {"gradient": ("sbeed", "gradient"), "SAC": ("sac", "default")}
DISCRETE = ("CartPole-v1", "Acrobot-v1", "FrozenLake-v1")  # which our SAC does not take


def _curve(label: str, env: str, agent: str, preset: str, steps: int, every: int) -> Curve:
    fields: Mapping[str, Any] = {"gamma": GAMMAS[env]} if env in GAMMAS else {}
    return Curve(label, RunSpec(env, agent, preset, steps=steps, fields=fields, evaluate_every=every, episodes=20))


def _panels(env: str, steps: int, every: int) -> tuple[Panel, Panel]:
    others = {label: of for label, of in BESIDE.items() if not (label == "SAC" and env in DISCRETE)}
    beside = (_curve(label, env, *of, min(steps, MOST_BESIDE), every) for label, of in others.items())
    return (
        Panel(env, env, (_curve("SBEED", env, "sbeed", "default", steps, every),)),
        Panel("beside it", env, tuple(beside)),
    )


FIGURE = Figure(
    "scores",
    "Today's presets",
    tuple(panel for env, (steps, every) in TASKS.items() for panel in _panels(env, steps, every)),
    FIRST_SEED,
)
