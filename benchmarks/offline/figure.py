"""offline.png and offline.svg: a pure function of rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.offline.page import GOALS, MEDIUM
from benchmarks.rows import Measurement
from sbeed.reporting import plots, stats
from sbeed.reporting.number_format import short

STYLES = {"behaviour": (plots.BLACK, "--"), "clone": (plots.VERMILLION, "-."), "td3+bc": (plots.GREEN, ":")}


def offline_figure(rows: Sequence[Measurement]) -> Figure:
    """What fixed data teach: a path of random actions, our own agents' data, the rate of a garnet, told values."""
    paths = [(f"{study}, one random path", _of(rows, study), GOALS[study]) for study in ("pendulum", "cartpole")]
    sets = sorted({(row["task"], row["kind"]) for row in _of(rows, MEDIUM)})
    values = [(name, _of(rows, f"values, {name}")) for name in ("cartpole", "pendulum")]
    with rc_context(plots.STYLE):
        figure, places = plots.grid(len(paths) + len(sets) + 1 + len(values))
        panels = iter(places)
        for title, some, goal in paths:
            _learned(next(panels), title, [row for row in some if row["preset"] == "offline"], {"goal": goal})
        for task, kind in sets:
            some = [row for row in _of(rows, MEDIUM) if (row["task"], row["kind"]) == (task, kind)]
            others = {name: _mean(found) for name in STYLES if (found := [r for r in some if r["system"] == name])}
            _learned(next(panels), f"{task}, {kind}", [row for row in some if row["system"] == "offline"], others)
        _rate(next(panels), _of(rows, "garnet"), _of(rows, "garnet, networks"))
        for name, some in values:
            _told(next(panels), name, [policy for row in some for policy in row["policies"]])
    return figure


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:  # nothing is measured yet where there is none
        axes.legend(loc="best", fontsize=8)


def _of(rows: Sequence[Measurement], study: str) -> list[Measurement]:
    return [row for row in rows if row["study"] == study]


def _mean(rows: Sequence[Measurement]) -> float:
    return float(np.mean([row["return"] for row in rows]))


def _learned(axes: Axes, title: str, rows: Sequence[Measurement], levels: dict[str, float]) -> None:
    """Return over updates of `offline`, seed by seed and their mean, beside levels that others reach."""
    curves = [tuple(np.array(row["curve"], float).T) for row in rows]
    for x, y in curves:
        axes.plot(x, y, color=plots.BLUE, lw=0.7, alpha=0.4)
    if curves:
        series = stats.mean_curve(curves)
        axes.plot(series.x, series.y, color=plots.BLUE, label="offline")
    for name, level in levels.items():
        colour, dashes = STYLES.get(name, (plots.BLACK, "--"))
        axes.axhline(level, color=colour, ls=dashes, lw=1.2, label=name)
    axes.set(title=title, xlabel="updates", ylabel="return")
    axes.xaxis.set_major_formatter(lambda x, _: short(x))
    _legend(axes)


def _rate(axes: Axes, tables: Sequence[Measurement], networks: Sequence[Measurement]) -> None:
    """The sup error of V over the path's length, a line for each garnet, and their geometric mean."""
    if tables:
        x, errors = np.array(tables[0]["T"]), np.concatenate([row["errors"] for row in tables])
        axes.loglog(x, errors.T, color=plots.BLUE, lw=0.5, alpha=0.3)
        mean = np.exp(np.log(errors).mean(0))
        axes.loglog(x, mean, color=plots.BLUE, marker="o", ms=4, label="tables")
        axes.loglog(x, mean[0] * (x / x[0]) ** -0.5, color=plots.BLACK, ls="--", lw=1.2, label="slope -1/2")
    if networks:
        x, totals = zip(*[(one["T"], one["total"]) for row in networks for one in row["errors"]])
        axes.loglog(x, totals, color=plots.VERMILLION, ls="", marker="x", ms=5, label="networks")
    axes.set(title="garnets", xlabel="steps of the path", ylabel="sup error of V")
    _legend(axes)


def _told(axes: Axes, name: str, policies: Sequence[Measurement]) -> None:
    """Values told from data over true returns: the order is what counts, for one is discounted and one is not."""
    for kind, colour in (("fitted", plots.BLUE), ("robust", plots.VERMILLION)):
        x, y = [one["return"] for one in policies], [one[kind] for one in policies]
        axes.plot(x, y, color=colour, ls="", marker="o", ms=3.5, alpha=0.6, label=kind)
    axes.set(title=f"values told, {name}", xlabel="true return", ylabel="discounted value")
    _legend(axes)
