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
    """A run with its seed, or with several from it on, whose members train as one population.

    What it is names it: the same run has the same id, wherever it is asked for.
    """

    spec: RunSpec
    seed: int
    members: int = 1

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.members)

    @property
    def id(self) -> str:
        """The beginning of a SHA-256 of all that was asked for; what the presets made of it is not in it."""
        text = json.dumps(describe(self), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(run: Run) -> dict[str, Any]:
    """The run as JSON knows it."""
    changes = {name: list(value) if isinstance(value, tuple) else value for name, value in run.spec.fields.items()}
    return {**asdict(run.spec), "fields": changes, "seed": run.seed, "members": run.members}


def read_run(found: Mapping[str, Any]) -> Run:
    """The run that `describe` gave; a ValueError in one line if there is none. Nothing is made of it yet."""
    names = {field.name for field in fields(RunSpec)} - {"fields"}
    changes = found.get("fields")
    if not isinstance(changes, dict) or set(found) != {*names, "fields", "seed", "members"}:
        raise ValueError("not a run of ours")
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    spec = with_fields(RunSpec("", fields=changes), {name: found[name] for name in names})
    return Run(spec, count("seed", found["seed"], low=0), count("members", found["members"], low=1))


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


def runs_of(figure: Figure, seeds: int, *, together: bool = False) -> list[tuple[str, Run]]:
    """Every run once, whoever shows it, with what to call it; the first seed of all curves comes first."""
    found: dict[str, tuple[str, Run]] = {}
    for seed in range(1 if together else seeds):
        for panel in figure.panels:
            for curve in panel.curves:
                run = _holding(curve, seed, seeds, together)
                title = f"{panel.env} {curve.label} " + (f"{seeds} seeds" if together else f"seed {seed}")
                found.setdefault(run.id, (title, run))
    return list(found.values())


def _holding(curve: Curve, seed: int, seeds: int, together: bool) -> Run:
    """The run of that seed."""
    return Run(curve.spec, 0, seeds) if together else Run(curve.spec, seed)


def shown(figure: Figure, seeds: int, *, together: bool = False) -> list[dict[str, Any]]:
    """The panels of figure.json: which runs are drawn where."""
    return [
        {
            "name": panel.name,
            "env": panel.env,
            "x": panel.x,
            "runs": [
                {"label": curve.label, "seed": seed, "id": _holding(curve, seed, seeds, together).id}
                for curve in panel.curves
                for seed in range(seeds)
            ],
        }
        for panel in figure.panels
    ]
