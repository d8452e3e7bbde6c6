"""Two sizes of a figure: the full one, and a small one that only checks that everything runs."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import NamedTuple

from sbeed.agents.configs import config_of
from sbeed.experiments.spec import Curve, Figure
from sbeed.training.run import RunSpec

SMALL = {
    "hidden": (32, 32),
    "features": 32,
    "batch_size": 256,
    "pi_batch_size": 256,
    "replay_capacity": 4_096,
    "warmup": 256,
    "steps_per_iteration": 256,
    "updates_per_iteration": 4,
    "V_updates": 4,
}


class Size(NamedTuple):
    seeds: int  # unless others are asked for
    sized: Callable[[RunSpec], RunSpec]


def _smoke(spec: RunSpec) -> RunSpec:
    """Some four thousand steps of a small agent, still with several rounds of updates."""
    known = {field.name for field in fields(config_of(spec.agent, spec.preset))}
    small = {name: value for name, value in SMALL.items() if name in known}
    if "trajectories_per_iteration" in spec.fields:
        small["trajectories_per_iteration"] = 2
    return replace(
        spec,
        steps=4_096,
        fields={**spec.fields, **small},
        evaluate_every=1_024,
        episodes=1,
        final_episodes=2,
        checkpoint_every=1_024,
    )


SCALES = {"smoke": Size(1, _smoke), "full": Size(5, lambda spec: spec)}


def at_scale(figure: Figure, scale: str) -> Figure:
    sized = SCALES[scale].sized
    panels = (
        panel._replace(curves=tuple(Curve(curve.label, sized(curve.spec)) for curve in panel.curves))
        for panel in figure.panels
    )
    return figure._replace(panels=tuple(panels))
