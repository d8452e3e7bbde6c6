"""Draw figures with matplotlib, as pure functions of rows."""

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from sbeed.reporting import summary
from sbeed.reporting.figure_results import FigureResults
from sbeed.reporting.number_format import short
from sbeed.reporting.stats import Series, over_seeds
from sbeed.storage.safe_write import write_file

# Okabe and Ito's palette: told apart by every kind of colour vision.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#9A9A9A"
COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, BLACK)
DASHES = ("-", "--", ":", "-.")
DIVERGING = LinearSegmentedColormap.from_list("loses, wins", ["#F3B58B", "#FFFFFF", "#8FC1E3"])

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
    paths = _files(stem)
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path) -> None:
    """A picture of the kind that the path's suffix says."""
    write_file(path, picture(figure, path.suffix.removeprefix(".")))


def picture(figure: Figure, kind: str) -> bytes:
    """kind: png, svg or pdf"""
    content = BytesIO()
    with rc_context(STYLE):
        figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()


def _files(stem: Path) -> list[Path]:
    return [stem.with_suffix(".png"), stem.with_suffix(".svg")]


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Evaluation return over environment steps, one panel per environment and one line per run.

    runs: label -> rows with env, seed, step, return. A line is the mean over the seeds of a run; its band is the 95%
    interval of that mean (Student's t), left out where there is one seed.
    """
    panels: dict[str, dict[str, Series]] = {}
    for label, rows in runs.items():
        for env in dict.fromkeys(row["env"] for row in rows):
            panels.setdefault(env, {})[label] = over_seeds([row for row in rows if row["env"] == env])
    with rc_context(STYLE):
        figure, places = grid(len(panels), width=5.6, height=3.8)
        for axes, (env, named) in zip(places, panels.items()):
            for label, series in named.items():
                _line(axes, series, list(named).index(label), label)
            axes.set(title=env, xlabel="environment steps", ylabel="evaluation return")
            axes.legend(loc="best")
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


def grid(panels: int, width: float = 4.4, height: float = 3.1, legend: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Places for so many panels, at most three side by side.   legend: inches above them"""
    columns = min(panels, 3)
    lines = -(-panels // columns)
    figure = Figure(figsize=(width * columns, legend + height * lines), layout="constrained", facecolor="white")
    places = list(np.asarray(figure.subplots(lines, columns, squeeze=False)).ravel())
    for axes in places[panels:]:
        axes.set_axis_off()
    return figure, places[:panels]


def style_of(i: int) -> dict[str, Any]:
    """The style of the i-th label: seven colours, then the same with other dashes."""
    return {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}


def _line(axes: Axes, series: Series, i: int, label: str) -> None:
    style = style_of(i)
    axes.plot(series.x, series.y, label=_plain(label), marker="o" if len(series.x) == 1 else None, **style)
    axes.fill_between(series.x, series.lo, series.hi, color=style["color"], alpha=0.2, lw=0)


def _plain(text: str) -> str:
    """Escape dollars, which matplotlib would read as mathematics."""
    return text.replace("$", r"\$")


# ------------------------------------------------------------------------------------------------- runs of a figure


def curves_figure(figure: FigureResults, version: str, x: str) -> Figure:
    """A panel of curves for each of the figure's.   version: a key of summary.VERSIONS; x: of summary.AXES"""
    with rc_context(STYLE):
        drawn, places = grid(len(figure.panels), legend=0.7)
        for axes, panel in zip(places, figure.panels):
            order = figure.order(panel)
            curves = summary.curves(panel, version, x)
            for label, series in curves.items():
                _line(axes, series, order.index(label), label)
            caveats = [_plain(f"{label}: {words}") for label, words in summary.caveats(panel, x).items() if curves]
            axes.set(title=_plain(panel.name), xlabel="\n".join([summary.AXES[x], *caveats]))
            if curves and summary.lengths_differ(curves):
                axes.set_xscale("log")
            else:
                axes.set_xlim(0, None)
                axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
            axes.xaxis.set_major_formatter(lambda x, _: short(x))
            if not figure.shares_labels:
                axes.legend(loc="best")
        for axes in places[::3]:
            axes.set_ylabel("evaluation return")
        if figure.shares_labels:
            keys = [Line2D([], [], lw=2, label=_plain(one), **style_of(i)) for i, one in enumerate(figure.labels)]
            drawn.legend(handles=keys, loc="outside upper center", ncols=min(len(keys), 7), fontsize=10)
        drawn.supxlabel(summary.VERSIONS[version], fontsize=9, color="#555555")
    return drawn


def comparison_figure(figure: FigureResults) -> Figure | None:
    """Performance profiles and probabilities of improvement; None if there is nothing to compare."""
    found = summary.comparisons(figure)
    if not found:
        return None
    most = max(len(one.profiles) for one in found)
    with rc_context(STYLE):
        drawn = Figure(figsize=(11, len(found) * (2.2 + 0.45 * most)), layout="constrained", facecolor="white")
        places = drawn.subplots(len(found), 2, squeeze=False, width_ratios=(1, 1.1))
        for (left, right), one in zip(places, found):
            for label, series in one.profiles.items():
                _line(left, series, one.order.index(label), label)
            left.set(title=_plain(f"Runs above a score, {one.title}"), xlabel=summary.SCORE, ylabel="share of runs")
            left.xaxis.label.set_fontsize(8)
            left.set(xlim=(0, 1), ylim=(-0.02, 1.02))
            left.legend(loc="best")
            _matrix(right, one)
    return drawn


def _matrix(axes: Axes, one: summary.Comparison) -> None:
    labels = list(one.profiles)
    chance = np.array([[one.improvement[a, b].value if a != b else np.nan for b in labels] for a in labels])
    axes.imshow(chance, cmap=DIVERGING, vmin=0, vmax=1, aspect="auto")
    for (a, b), estimate in one.improvement.items():
        text = f"{estimate.value:.2f}\n{estimate.lo:.2f}–{estimate.hi:.2f}"
        axes.text(labels.index(b), labels.index(a), text, ha="center", va="center", fontsize=8)
    names = [_plain(label) for label in labels]
    axes.set_xticks(range(len(labels)), names, rotation=25, ha="right")
    axes.set_yticks(range(len(labels)), names)
    axes.set(title="Chance that a run of the row beats one of the column")
    axes.grid(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def pictures(figure: FigureResults) -> list[Path]:
    """curves, iqm and comparison, each as PNG and SVG, in the figure's folder; curves over every axis asked for.

    An older picture that is not drawn again is removed, because its rows no longer exist.
    """
    drawn: dict[str, Figure | None] = {}
    for i, x in enumerate(figure.axes):
        over = f"_over_{x}s" if i else ""
        drawn[f"curves{over}"] = curves_figure(figure, "mean", x)
        drawn[f"iqm{over}"] = curves_figure(figure, "iqm", x)
    drawn["comparison"] = comparison_figure(figure)
    over_axes = [f"{kind}_over_{x}s" for kind in ("curves", "iqm") for x in summary.AXES]
    for name in ("comparison", *over_axes):
        for old in [] if drawn.get(name) else _files(figure.path / name):
            old.unlink(missing_ok=True)
    return [path for name, one in drawn.items() if one is not None for path in save(one, figure.path / name)]


# ------------------------------------------------------------------------------------------------- the laboratory


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
