"""Figures as pure functions of rows: matplotlib in, nothing of the laboratory."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure, SubFigure
from scipy.special import stdtrit

# Okabe and Ito's palette: told apart by every kind of colour vision.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#9A9A9A"

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "svg.hashsalt": "sbeed",  # the same rows give the same file
    "mathtext.fontset": "cm",
}


class Series(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


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


def save(figure: Figure, stem: Path) -> list[Path]:
    """stem.png and stem.svg"""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    with rc_context(STYLE):
        figure.savefig(paths[0], dpi=160)
        figure.savefig(paths[1], metadata={"Date": None})
    return paths


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Evaluation return over environment steps, one panel per environment and one line per run.

    runs: label -> rows with env, seed, step, return. A line is the mean over the seeds of a run; its band is the 95%
    interval of that mean (Student's t), left out where there is one seed.
    """
    panels: dict[str, dict[str, Series]] = {}
    for label, rows in runs.items():
        for env in dict.fromkeys(row["env"] for row in rows):
            panels.setdefault(env, {})[label] = over_seeds([row for row in rows if row["env"] == env])
    columns = min(len(panels), 3)
    lines = -(-len(panels) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(1 + 5 * columns, 3.8 * lines), layout="constrained", facecolor="white")
        places = np.asarray(figure.subplots(lines, columns, squeeze=False)).ravel()
        for axes, (env, named) in zip(places, panels.items()):
            for i, (label, series) in enumerate(named.items()):
                colour = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)[i % 7]
                axes.plot(series.x, series.y, color=colour, label=label, marker="o" if len(series.x) == 1 else None)
                axes.fill_between(series.x, series.lo, series.hi, color=colour, alpha=0.2, lw=0)
            axes.set(title=env, xlabel="environment steps", ylabel="evaluation return")
            axes.legend(loc="best")
        for axes in places[len(panels) :]:
            axes.set_axis_off()
    return figure


def dataset_histograms(name: str, returns: np.ndarray, lengths: np.ndarray, rewards: np.ndarray) -> Figure:
    """Returns and lengths of a dataset's episodes, and the rewards of its transitions."""
    columns = {"return of an episode": returns, "length of an episode": lengths, "reward": rewards}
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 3.2), layout="constrained", facecolor="white")
        for axes, (label, values) in zip(np.asarray(figure.subplots(1, 3)).ravel(), columns.items()):
            axes.hist(np.asarray(values, float), bins=40, color=BLUE)
            axes.set(xlabel=label, ylabel="transitions" if label == "reward" else "episodes")
        figure.suptitle(name)
    return figure


def over_seeds(rows: Sequence[Mapping[str, Any]]) -> Series:
    """Mean return at each step and the 95% interval of that mean: y +- t(n - 1) s / sqrt(n), s with n - 1.

    Steps at which some seeds are missing are left out: a mean over fewer seeds is one of something else. A run that was
    stopped where it had just been evaluated has two rows of that step: the final one counts.
    """
    at: dict[int, list[float]] = {}
    ends = {(row.get("seed"), row["step"]) for row in rows if row.get("final")}
    for row in rows:
        if row.get("final") or (row.get("seed"), row["step"]) not in ends:
            at.setdefault(row["step"], []).append(row["return"])
    seeds = max(map(len, at.values()))
    steps = sorted(step for step, some in at.items() if len(some) == seeds)
    values = [np.array(at[step], float) for step in steps]  # of a return that was not finite, which is null: NaN
    mean = np.array([some.mean() for some in values])
    half = np.array([_half_interval(some) for some in values])
    return Series(np.array(steps), mean, mean - half, mean + half)


def _half_interval(values: np.ndarray) -> float:
    n = len(values)
    return 0.0 if n == 1 else float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n))


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
