"""The results of a figure's runs so far, as data: read by `figure_folder`, then summarised and drawn."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from sbeed.reporting import stats


class RunResult(NamedTuple):
    """The result of one seed. A run that has not begun has no curve; an unfinished one has no final return."""

    label: str
    seed: int
    id: str
    config: Mapping[str, Any] = {}
    curves: Mapping[str, stats.Points] = {}  # by axis; in iterations where the rows or the config tell
    steps: int = 0
    final: float | None = None
    diverged: bool = False
    seconds: float | None = None
    # Of the whole run, so the same for all members of a population.
    machine: str = ""  # on which it ended
    whole_seconds: float | None = None  # from its beginning to its end
    versions: str = ""  # of the packages with which it ended

    @property
    def over(self) -> bool:
        return self.final is not None or self.diverged

    @property
    def members(self) -> int:
        """The number of members of its population; 1 for a run of its own."""
        asked = self.config.get("seeds")
        return asked if is_count(asked) and asked else 1


class PanelResults(NamedTuple):
    name: str
    env: str
    x: str
    runs: tuple[RunResult, ...]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(run.label for run in self.runs))

    def of(self, label: str) -> list[RunResult]:
        return [run for run in self.runs if run.label == label]


class FigureResults(NamedTuple):
    path: Path
    name: str
    title: str
    panels: tuple[PanelResults, ...]
    axes: tuple[str, ...]  # over which they are asked for
    facts: Mapping[str, str]  # scale, executor, machine
    versions: Mapping[str, Any]  # of packages
    seconds: float | None

    @property
    def runs(self) -> list[RunResult]:
        return [run for panel in self.panels for run in panel.runs]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(run.label for run in self.runs))

    @property
    def shares_labels(self) -> bool:
        """True if some label is in several panels, so that it must look the same in each."""
        return sum(len(panel.labels) for panel in self.panels) > len(self.labels)

    def order(self, panel: PanelResults) -> list[str]:
        """Labels in the order in which they get colours."""
        return self.labels if self.shares_labels else panel.labels


class Results(NamedTuple):
    figures: list[FigureResults]
    claims: list[Mapping[str, Any]]  # name, says, holds, held, mdps, margin, counterexample_fails, seconds
    theory: list[Mapping[str, Any]]  # panel, series, x, y, lo, hi


def is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def without_repeats(panels: Iterable[PanelResults]) -> tuple[PanelResults, ...]:
    """Drop panels that show the same runs over the other axis: every panel is drawn over both."""
    found: dict[tuple[Any, ...], PanelResults] = {}
    for panel in panels:
        found.setdefault((panel.name, panel.env, *(run[:3] for run in panel.runs)), panel)
    return tuple(found.values())


def over_iterations(
    rows: list[dict[str, Any]], steps: np.ndarray, returns: np.ndarray, config: Mapping[str, Any]
) -> dict[str, stats.Points]:
    """The curve over iterations, counted in the rows or computed from steps; rounds of whole trajectories have none."""
    counted = {row["step"]: row["iteration"] for row in rows if "iteration" in row}
    if all(step in counted for step in steps):
        iterations = np.array([counted[step] for step in steps])
        last = np.append(np.diff(iterations) > 0, True)  # of an iteration; a long one is evaluated more than once
        return {"iteration": (iterations[last], returns[last])} if np.all(np.diff(iterations) >= 0) else {}
    each = config.get("steps_per_iteration")
    known = is_count(each) and each and config.get("trajectories_per_iteration") is None
    return {"iteration": (steps / each, returns)} if known else {}


def diverged_in(result: Mapping[str, Any], seed: int) -> bool:
    """True if the member with this seed diverged; in a population others may have finished."""
    lost = result.get("lost")
    return result.get("outcome") == "diverged" or (isinstance(lost, list) and seed in lost)
