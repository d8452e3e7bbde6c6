"""Runs and the figures that show them, as data."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from sbeed.agents.knobs import whole_number, with_fields
from sbeed.training.run import RunSpec


@dataclass(frozen=True)
class Run:
    """A run with one seed, or with several consecutive seeds that train as one population.

    The id is a hash of the content: the same run has the same id in every figure.
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
    """The run as plain data for JSON."""
    changes = {name: list(value) if isinstance(value, tuple) else value for name, value in run.spec.fields.items()}
    return {**run.spec.as_dict(), "fields": changes, "seed": run.seed, "members": run.members}


def read_run(found: Mapping[str, Any]) -> Run:
    """Invert `describe`; other data are a one-line ValueError. Nothing is constructed yet."""
    names = {field.name for field in fields(RunSpec)} - {"fields"}
    changes = found.get("fields")
    if not isinstance(changes, dict) or set(found) != {*names, "fields", "seed", "members"}:
        raise ValueError("not a run that sbeed wrote")
    changes = {name: tuple(value) if isinstance(value, list) else value for name, value in changes.items()}
    spec = with_fields(RunSpec("", fields=changes), {name: found[name] for name in names})
    return Run(spec, whole_number("seed", found["seed"], low=0), whole_number("members", found["members"], low=1))


class Curve(NamedTuple):
    """A line of a panel: one run for every seed."""

    label: str
    spec: RunSpec


Axis = Literal["step", "iteration"]


class Panel(NamedTuple):
    name: str
    env: str
    curves: tuple[Curve, ...]
    x: Axis = "step"


class Figure(NamedTuple):
    name: str
    title: str
    panels: tuple[Panel, ...]
    first_seed: int = 0  # of each curve's runs; others than 0 for settings that were searched on those

    def seeds(self, count: int) -> range:
        return range(self.first_seed, self.first_seed + count)


def panel_per_task(
    tasks: Collection[str], labels: Collection[str], curve: Callable[[str, str], Curve], over: Iterable[Axis]
) -> tuple[Panel, ...]:
    """Make a panel for each axis and task, with `curve(task, label)` for every label."""
    return tuple(Panel(task, task, tuple(curve(task, label) for label in labels), x) for x in over for task in tasks)


def places_in(figure: Figure) -> list[str]:
    """The names of its tasks and panels."""
    return list(dict.fromkeys(name for panel in figure.panels for name in (panel.env, panel.name)))


def labels_in(figure: Figure) -> list[str]:
    """The names of its curves."""
    return list(dict.fromkeys(curve.label for panel in figure.panels for curve in panel.curves))


def chosen(figure: Figure, names: Collection[str]) -> Figure:
    """Select the named tasks and panels, and the named curves; a kind of which none is named is kept whole."""
    places, labels = set(places_in(figure)) & set(names), set(labels_in(figure)) & set(names)
    panels = [
        panel._replace(curves=tuple(curve for curve in panel.curves if not labels or curve.label in labels))
        for panel in figure.panels
        if not places or {panel.env, panel.name} & places
    ]
    return figure._replace(panels=tuple(panel for panel in panels if panel.curves))


def trains_alone(spec: RunSpec) -> bool:
    """True if rounds are whole trajectories: in a population all members would wait for the slowest."""
    return spec.fields.get("trajectories_per_iteration") is not None


Holding = Callable[[RunSpec, int], Run]  # the run of a spec that has this seed; `Run` itself: one of its own


def arranged(figure: Figure, seeds: int, *, together: bool = False, done: Iterable[Run] = ()) -> Holding:
    """Assign a run to each seed of each curve: the finished run that has it, else a run of its own.

    together: unfinished seeds that are consecutive form one population instead.
    """
    holders = {Run(run.spec, seed).id: run for run in done for seed in run.seeds}
    for spec in (curve.spec for panel in figure.panels for curve in panel.curves):
        left = [seed for seed in figure.seeds(seeds) if Run(spec, seed).id not in holders]
        if together and not trains_alone(spec) and left and left[-1] - left[0] + 1 == len(left):
            population = Run(spec, left[0], len(left))
            holders |= {Run(spec, seed).id: population for seed in left}
    return lambda spec, seed: holders.get((own := Run(spec, seed)).id, own)


def runs_of(figure: Figure, seeds: int, holding: Holding = Run) -> list[tuple[str, Run]]:
    """Every run once, with its title, even if several panels show it; the first seed of all curves comes first."""
    found: dict[str, tuple[str, Run]] = {}
    for seed in figure.seeds(seeds):
        for panel in figure.panels:
            place = panel.env if panel.name == panel.env else f"{panel.env} ({panel.name})"
            for curve in panel.curves:
                run = holding(curve.spec, seed)
                title = f"{place} {curve.label} " + (f"seed {seed}" if run.members == 1 else f"{run.members} seeds")
                found.setdefault(run.id, (title, run))
    return list(found.values())


def shown(figure: Figure, seeds: int, holding: Holding = Run) -> list[dict[str, Any]]:
    """The panels of figure.json: which runs are drawn where."""
    return [
        {
            "name": panel.name,
            "env": panel.env,
            "x": panel.x,
            "runs": [
                {"label": curve.label, "seed": seed, "id": holding(curve.spec, seed).id}
                for curve in panel.curves
                for seed in figure.seeds(seeds)
            ],
        }
        for panel in figure.panels
    ]


Places = AbstractSet[tuple[str, str, str, int]]  # where runs are drawn: panel, x, label, seed


def places_of(panels: Iterable[Mapping[str, Any]]) -> Places:
    return {_place(panel, run) for panel in panels for run in panel["runs"]}


def among(panels: Iterable[Mapping[str, Any]], places: Places) -> list[dict[str, Any]]:
    """Keep only what is drawn in these places."""
    kept = ({**panel, "runs": [run for run in panel["runs"] if _place(panel, run) in places]} for panel in panels)
    return [panel for panel in kept if panel["runs"]]


def _place(panel: Mapping[str, Any], run: Mapping[str, Any]) -> tuple[str, str, str, int]:
    return panel["name"], panel["x"], run["label"], run["seed"]
