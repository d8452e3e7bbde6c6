"""What each part of the Q-form does: the gradient's backward half, the dual, the slow copy, traces, and where they pay.

`Q-form` is the preset; every other curve differs from it in the one thing that it is called by.
"""

from collections.abc import Mapping
from typing import Any

from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

Fields = Mapping[str, Any]
PRESET: Fields = {}
SEMI_GRADIENT: Fields = {"kappa": 0.0}

# Panels that show one knob each. Where eta is 0 there is no dual to fit.
PARTS: dict[str, dict[str, Fields]] = {
    "kappa": {"kappa = 0": SEMI_GRADIENT, "kappa = .3": {"kappa": 0.3}, "kappa = 1": PRESET},
    "eta": {
        "eta = 0": {"eta": 0.0, "dual": "none"},
        "eta = .1": {"eta": 0.1},
        "eta = .5": {"eta": 0.5},
        "eta = 1": PRESET,
    },
    "slow copy": {
        "none": PRESET,
        "slow copy": {"slow_copy": True},
        "slow copy, kappa = 0": {"slow_copy": True, **SEMI_GRADIENT},
    },
    "dual": {
        "head": PRESET,
        "network": {"dual": "net", "dual_step_size": 1e-3, "dual_ridge": 0.01},
        "exact": {"dual": "linear"},
    },
    "trace": {"one step": PRESET, "trace = .5": {"k": 4, "trace": 0.5}, "trace = .9": {"k": 4, "trace": 0.9}},
    "normalisation": {"last layer": PRESET, **{norm: {"norm": norm} for norm in ("none", "layer", "rms", "batch")}},
}
TASKS = {
    "Hopper": ("Hopper-v5", 0.0, {"gamma": 0.995}),
    "HalfCheetah": ("HalfCheetah-v5", 0.0, PRESET),
    "Walker2d": ("Walker2d-v5", 0.0, PRESET),
    "noisy Swimmer": ("Swimmer-v5", 0.1, {"gamma": 0.999}),
}
# Where a true gradient should pay: many updates a step, and noisy transitions.
REGIMES: dict[str, tuple[str, float, Fields]] = {
    "Hopper, 8 updates a step": ("Hopper-v5", 0.0, {"gamma": 0.995, "updates_per_iteration": 512}),
    "HalfCheetah, 8 updates a step": ("HalfCheetah-v5", 0.0, {"updates_per_iteration": 512}),
    "noisy Hopper": ("Hopper-v5", 0.1, {"gamma": 0.995}),
}


def _panel(name: str, task: tuple[str, float, Fields], steps: int, curves: Mapping[str, Fields]) -> Panel:
    env, noise, of_task = task
    run = lambda fields: RunSpec(env, steps=steps, noise=noise, fields={**of_task, **fields})
    return Panel(name, env, tuple(Curve(label, run(fields)) for label, fields in curves.items()))


FIGURE = Figure(
    "q-form",
    "The parts of the Q-form",
    (
        *(
            _panel(f"{place}: {part}", task, 100_000, curves)
            for place, task in TASKS.items()
            for part, curves in PARTS.items()
        ),
        *(_panel(place, task, 50_000, PARTS["kappa"]) for place, task in REGIMES.items()),
    ),
)
