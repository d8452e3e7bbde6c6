"""What is run, as data: runs with names of their own, and the figures that show them."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

from sbeed.about import count
from sbeed.agents.knobs import with_fields
from sbeed.training.run import RunSpec


@dataclass(frozen=True)
class Run:
    """A run with its seed. What it is names it: the same run has the same id, wherever it is asked for."""

    spec: RunSpec
    seed: int

    @property
    def id(self) -> str:
        """The beginning of a SHA-256 of all that was asked for; what the presets made of it is not in it."""
        text = json.dumps(describe(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(run: Run) -> dict[str, Any]:
    """The run as JSON knows it."""
    changes = {name: list(value) if isinstance(value, tuple) else value for name, value in run.spec.fields.items()}
    return {**asdict(run.spec), "fields": changes, "seed": run.seed}


def read_run(found: Mapping[str, Any]) -> Run:
    """The run that `describe` gave; a ValueError in one line if there is none. Nothing is made of it yet."""
    names = {field.name for field in fields(RunSpec)} - {"fields"}
    changes = found.get("fields")
    if not isinstance(changes, dict) or set(found) != {*names, "fields", "seed"}:
        raise ValueError("not a run of ours")
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    spec = with_fields(RunSpec("", fields=changes), {name: found[name] for name in names})
    return Run(spec, count("seed", found["seed"], low=0))


class Curve(NamedTuple):
    """A line of a panel: one run for every seed."""

    label: str
    spec: RunSpec


class Panel(NamedTuple):
    name: str
    env: str
    curves: tuple[Curve, ...]
    x: Literal["step", "iteration"] = "step"


class Figure(NamedTuple):
    name: str
    title: str
    panels: tuple[Panel, ...]


def runs_of(figure: Figure, seeds: int) -> list[tuple[str, Run]]:
    """Every run once, whoever shows it, with what to call it; the first seed of all curves comes first."""
    found: dict[str, tuple[str, Run]] = {}
    for seed in range(seeds):
        for panel in figure.panels:
            for curve in panel.curves:
                run = Run(curve.spec, seed)
                found.setdefault(run.id, (f"{panel.env} {curve.label} seed {seed}", run))
    return list(found.values())


def shown(figure: Figure, seeds: int) -> list[dict[str, Any]]:
    """The panels of figure.json: which runs are drawn where."""
    return [
        {
            "name": panel.name,
            "env": panel.env,
            "x": panel.x,
            "runs": [
                {"label": curve.label, "seed": seed, "id": Run(curve.spec, seed).id}
                for curve in panel.curves
                for seed in range(seeds)
            ],
        }
        for panel in figure.panels
    ]
