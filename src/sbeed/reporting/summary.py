"""Summarise a figure: its curves, its final returns, and comparisons of its labels."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sbeed.reporting import stats
from sbeed.reporting.figure_results import FigureResults, PanelResults, RunResult
from sbeed.reporting.stats import Estimate, Series

VERSIONS = {
    "mean": "mean, 50% interval (Student's t), as the paper",
    "iqm": "interquartile mean, 95% bootstrap interval",
}
AXES = {"step": "environment steps", "iteration": "iterations"}
THRESHOLDS = np.linspace(0, 1, 101)
SCORE = "score: 0 is the lowest final return of the figure's runs on the task, 1 the highest"


def curves(panel: PanelResults, version: str, x: str) -> dict[str, Series]:
    """The curve of each label that has one, over its seeds."""
    found = {label: [run.curves[x] for run in _behind(panel, label, x)] for label in panel.labels}
    over = {"mean": lambda some: stats.mean_curve(some, stats.PAPER_LEVEL), "iqm": stats.iqm_curve}[version]
    series = {label: over(some) for label, some in found.items() if some}
    return {label: one for label, one in series.items() if len(one.x)}


def caveats(panel: PanelResults, x: str) -> dict[str, str]:
    """A note for each label whose curve does not cover all its seeds to their end, with the reason."""
    found = {}
    for label in panel.labels:
        asked, behind = len(panel.of(label)), _behind(panel, label, x)
        diverged = sum(run.diverged for run in behind)
        words = [f"{len(behind)} of {asked} seeds"] if len(behind) < asked or diverged else []
        if diverged:
            words.append(f"cut where {diverged} diverged")
        elif len(ends := {float(run.curves[x][0][-1]) for run in behind if run.final is not None}) > 1:
            words.append(f"ends with its shortest seed, at {min(ends):g} of up to {max(ends):g}")
        if words:
            found[label] = ", ".join(words)
    return found


def _behind(panel: PanelResults, label: str, x: str) -> list[RunResult]:
    """The finished runs, if there are any: an unfinished one would cut the curve at its last step. A diverged one
    does cut it there, because a mean over the remaining runs would flatter.
    """
    begun = [run for run in panel.of(label) if x in run.curves]
    return [run for run in begun if run.over] or begun


def lengths_differ(curves: Mapping[str, Series]) -> bool:
    """True if some curves are so much longer than others that only a logarithmic axis shows both: an iteration of one
    algorithm may be 64 steps, that of another 2048."""
    ends = [one.x[-1] for one in curves.values()]
    return min(ends) > 0 and max(ends) > 10 * min(ends)


class Final(NamedTuple):
    """The final returns of a label; runs without one are left out of the estimates."""

    by_seed: Mapping[int, float | None]
    diverged: int
    mean: Estimate | None
    iqm: Estimate | None


def finals(panel: PanelResults) -> dict[str, Final]:
    found = {}
    for label in panel.labels:
        values = _values(panel, label)
        some = len(values) > 0
        found[label] = Final(
            {run.seed: run.final for run in panel.of(label)},
            sum(run.diverged for run in panel.of(label)),
            stats.mean(values) if some else None,
            stats.overall_iqm([values]) if some else None,
        )
    return found


class Comparison(NamedTuple):
    title: str
    order: Sequence[str]  # labels in the order of their colours
    profiles: Mapping[str, Series]
    iqm: Mapping[str, Estimate]
    improvement: Mapping[tuple[str, str], Estimate]  # the chance that the first beats the second


def comparisons(figure: FigureResults) -> list[Comparison]:
    """Compare finished runs: over all panels together if each is another task with the same labels, else panel by
    panel."""
    panels = [panel for panel in figure.panels if any(run.final is not None for run in panel.runs)]
    shared, returns = _shared(panels), _by_task(panels)
    if len(returns) == len(panels) > 1 and len(shared) > 1:
        return [_compare(f"{len(panels)} tasks", figure.labels, panels, shared, returns)]
    alone = [_shared([panel]) for panel in panels]
    return [
        _compare(panel.name, figure.order(panel), [panel], some, returns)
        for panel, some in zip(panels, alone)
        if len(some) > 1
    ]


def _shared(panels: Sequence[PanelResults]) -> list[str]:
    """Labels with several finished runs in each panel: one alone tells nothing of chance."""
    labels = dict.fromkeys(label for panel in panels for label in panel.labels)
    return [label for label in labels if all(sum(run.over for run in panel.of(label)) > 1 for panel in panels)]


def _by_task(panels: Sequence[PanelResults]) -> dict[str, np.ndarray]:
    """The final returns of all runs on each task, whichever panel shows them."""
    return {
        env: np.concatenate([_values(panel, label) for panel in panels if panel.env == env for label in panel.labels])
        for env in {panel.env for panel in panels}
    }


def _compare(
    title: str,
    order: Sequence[str],
    panels: Sequence[PanelResults],
    labels: Sequence[str],
    returns: Mapping[str, np.ndarray],
) -> Comparison:
    scores = {label: [_scores(panel, label, returns[panel.env]) for panel in panels] for label in labels}
    return Comparison(
        title,
        order,
        {label: stats.profile(tasks, THRESHOLDS) for label, tasks in scores.items()},
        {label: stats.overall_iqm(tasks) for label, tasks in scores.items()},
        {(a, b): stats.improvement(scores[a], scores[b]) for a in labels for b in labels if a != b},
    )


def _values(panel: PanelResults, label: str) -> np.ndarray:
    return np.array([run.final for run in panel.of(label) if run.final is not None])


def _scores(panel: PanelResults, label: str, returns: np.ndarray) -> np.ndarray:
    """A run that diverged is no better than the lowest; left out, it would flatter its label.

    returns: of all runs on the task, so that a run has one score in all panels
    """
    found = (_values(panel, label) - returns.min()) / (np.ptp(returns) or 1)
    return np.append(found, np.zeros(sum(run.diverged for run in panel.of(label))))
