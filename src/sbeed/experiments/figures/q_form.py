"""The effect of each part of the Q-form: the gradient's backward half, the dual, the slow copy, traces.

Every curve differs from the preset in the one thing that it is called by, or from the gradient (kappa = 1) where the
panel says so.
"""

from collections.abc import Mapping
from typing import Any

from sbeed.experiments.figures.scores import FIRST_SEED
from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

Fields = Mapping[str, Any]
PRESET: Fields = {}
SEMI_GRADIENT: Fields = {"backward": "kappa", "kappa": 0.0}
GRADIENT: Fields = {"backward": "kappa", "kappa": 1.0}

# Panels that show one knob each. Where eta is 0 there is no dual to fit.
PARTS: dict[str, dict[str, Fields]] = {
    "backward half": {
        "preset": PRESET,
        "kappa = 0": SEMI_GRADIENT,
        "kappa = .3": {"backward": "kappa", "kappa": 0.3},
        "kappa = 1": GRADIENT,
    },
    "angle": {"cosine .5": PRESET, "cosine .8": {"descent": 0.8}, "cosine .95": {"descent": 0.95}},
    "eta, at kappa = 1": {
        "eta = 0": {**GRADIENT, "eta": 0.0, "dual": "none"},
        "eta = .1": {**GRADIENT, "eta": 0.1},
        "eta = .5": {**GRADIENT, "eta": 0.5},
        "eta = 1": GRADIENT,
    },
    "slow copy": {
        "none": PRESET,
        "slow copy": {"slow_copy": True},
        "slow copy, kappa = 0": {"slow_copy": True, **SEMI_GRADIENT},
    },
    "dual, at kappa = 1": {
        "head": GRADIENT,
        "network": {**GRADIENT, "dual": "net", "dual_step_size": 1e-3},
        "exact": {**GRADIENT, "dual": "linear"},
    },
    "trace": {"one step": {"k": 1}, "trace = .5": PRESET, "trace = .9": {"trace": 0.9}},
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
    "Hopper, 8 updates a step": ("Hopper-v5", 0.0, {"gamma": 0.995, "updates_per_iteration": 512, "batch_size": 256}),
    "HalfCheetah, 8 updates a step": ("HalfCheetah-v5", 0.0, {"updates_per_iteration": 512, "batch_size": 256}),
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
        *(_panel(place, task, 50_000, PARTS["backward half"]) for place, task in REGIMES.items()),
    ),
    FIRST_SEED,
)
