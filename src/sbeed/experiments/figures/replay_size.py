"""How far from pi the data may be: return against the number of transitions kept.

The presets of the (V, pi) form draw V's and the dual's batches from the whole replay and pi's from the newest 4096
transitions. "as printed" draws pi's from the whole replay too.
"""

from collections.abc import Mapping
from typing import Any

from sbeed.experiments.figures.scores import FIRST_SEED, GAMMAS
from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

SIZES = {"4k": 4_096, "20k": 20_480, "100k": 102_400, "1M": 1_000_000}
TASKS = {"Pendulum-v1": 200_000, "Hopper-v5": 500_000, "HalfCheetah-v5": 500_000}
FORMS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "paper": ("paper", {}),
    "paper-exact": ("paper-exact", {}),
    "as printed": ("paper", {"pi_newest": None}),
    "Q-form": ("default", {}),
}


def _curve(task: str, steps: int, form: str, size: str) -> Curve:
    preset, fields = FORMS[form]
    gamma = {"gamma": GAMMAS[task]} if preset == "default" and task in GAMMAS else {}
    spec = RunSpec(task, "sbeed", preset, steps=steps, fields={**gamma, **fields, "replay_capacity": SIZES[size]})
    return Curve(size, spec)


FIGURE = Figure(
    "replay-size",
    "Returns by replay size",
    tuple(
        Panel(f"{task}: {form}", task, tuple(_curve(task, steps, form, size) for size in SIZES))
        for task, steps in TASKS.items()
        for form in FORMS
    ),
    FIRST_SEED,
)
