"""Draw the theory figure: four panels of the laboratory, as a pure function of rows."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure, SubFigure

from sbeed.reporting.plots import BLACK, BLUE, GREEN, GREY, ORANGE, SKY, STYLE, VERMILLION
from sbeed.reporting.stats import Series


def theory_figure(rows: Iterable[Mapping[str, Any]]) -> Figure:
    """The four panels of the laboratory. rows: panel, series, x, y, lo, hi."""
    panels: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        panels.setdefault(row["panel"], {}).setdefault(row["series"], []).append(row)
    data = {
        panel: {
            name: Series(*(np.array([float(r[c]) for r in found]) for c in Series._fields))
            for name, found in named.items()
        }
        for panel, named in panels.items()
    }
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 8.4), layout="constrained", facecolor="white")
        places = np.asarray(figure.subfigures(2, 2, wspace=0.04, hspace=0.04)).ravel()
        for draw, panel, place in zip((_variance, _bias, _baird, _error), "abcd", places):
            draw(place, data[panel])
    return figure


def _variance(place: SubFigure, data: dict[str, Series]) -> None:
    axes = place.subplots()
    names = {0.0: r"$\eta = 0$ (PCL)", 0.25: r"$\eta = 0.25$", 0.5: r"$\eta = 0.5$", 1.0: r"$\eta = 1$ (SBEED)"}
    for (eta, label), colour, marker in zip(names.items(), (VERMILLION, ORANGE, SKY, BLUE), "s^Do"):
        line, points = data[f"eta={eta:g}"], data[f"eta={eta:g}, sampled"]
        axes.plot(line.x, line.y, color=colour)
        axes.errorbar(
            points.x, points.y, [points.y - points.lo, points.hi - points.y], color=colour, marker=marker, ms=5,
            mec="white", mew=0.6, capsize=2.5, elinewidth=1.2, linestyle="none",
        )  # fmt: skip
        axes.plot([], [], color=colour, marker=marker, ms=5, label=label)
    axes.set(
        title="(a)  Only the dual removes the bias of noise",
        xlabel="transition noise (chance that the next state is a coin flip)",
        ylabel=r"$\Vert V - V^*_\lambda\Vert_\infty$",
    )
    axes.legend(loc="upper right", title="lines: exact\npoints: sampled paths", alignment="left", title_fontsize=9)
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.12 * max(series.y.max() for series in data.values())))


def _bias(place: SubFigure, data: dict[str, Series]) -> None:
    axes = place.subplots()
    bound = data["bound"]
    mdps = [series for name, series in data.items() if name != "bound"]
    for i, series in enumerate(mdps):
        axes.loglog(series.x, series.y, color=BLUE, lw=1, alpha=0.55, label=None if i else f"{len(mdps)} random MDPs")
    axes.loglog(bound.x, bound.y, color=BLACK, ls="--", label=r"bound $\lambda H^* / (1 - \gamma)$")
    axes.set(
        title="(b)  Smoothing costs at most its bound",
        xlabel=r"smoothing $\lambda$ (in units of reward)",
        ylabel=r"$\Vert V^*_\lambda - V^*\Vert_\infty$",
        ylim=(bound.y[0] * 1e-3, bound.y[-1] * 2),
    )
    axes.legend(loc="lower right")


def _baird(place: SubFigure, data: dict[str, Series]) -> None:
    upper, lower = place.subplots(2, 1, sharex=True)
    runs = {
        "Q-learning": (r"semi-gradient Q-learning ($V = \max_a Q$)", VERMILLION, "-"),
        "SBEED": ("SBEED, steps in the paper's norm", BLUE, "-"),
        "SBEED, plain steps": ("SBEED, plain steps: slow", SKY, "--"),
    }
    for name, (label, colour, style) in runs.items():
        for axes, quantity in ((upper, "weight norm"), (lower, "Bellman error")):
            series = data[f"{name}: {quantity}"]
            axes.semilogy(series.x, series.y, color=colour, ls=style, label=label)
    upper.set(title="(c)  Baird's star: Q-learning diverges, SBEED converges", ylabel=r"weights $\Vert w\Vert$")
    # One error for all three, a function of V alone.
    lower.set(xlabel="iteration", ylabel=r"$\mathbb{E}[(T_\lambda V - V)^2]$")
    upper.legend(loc="upper left")


def _error(place: SubFigure, data: dict[str, Series]) -> None:
    axes = place.subplots()
    mean, slope = data["mean"], data["slope"]
    mdps = [series for name, series in data.items() if name.startswith("MDP")]
    for i, series in enumerate(mdps):
        axes.loglog(series.x, series.y, color=GREY, lw=0.8, alpha=0.7, label=None if i else f"{len(mdps)} random MDPs")
    reference = 0.45 * mean.y[0] * (mean.x / mean.x[0]) ** -0.5
    axes.loglog(mean.x, reference, color=BLACK, ls="--", lw=1.2, label=r"$T^{-1/2}$")
    half = (slope.hi[0] - slope.lo[0]) / 2
    axes.fill_between(mean.x, mean.lo, mean.hi, color=GREEN, alpha=0.2, lw=0)
    label = rf"mean, slope ${slope.y[0]:.3f} \pm {half:.3f}$"
    axes.loglog(mean.x, mean.y, color=GREEN, marker="o", ms=5, mec="white", mew=0.6, label=label)
    axes.set(
        title=r"(d)  More data, less error: $T^{-1/2}$",
        xlabel="length $T$ of the sample path (steps)",
        ylabel=r"$\Vert \hat V - V^*_\lambda\Vert_\infty$",
    )
    axes.legend(loc="lower left")
