"""Draw figures with matplotlib, as pure functions of rows."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
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


def save(figure: Figure, stem: Path) -> list[Path]:
    """Write stem.png and stem.svg; returns their paths."""
    paths = _files(stem)
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path) -> None:
    """Write a picture of the kind that the suffix of the path names."""
    write_file(path, picture(figure, path.suffix.removeprefix(".")))


def picture(figure: Figure, kind: str) -> bytes:
    """Draw a figure as the bytes of a file.   kind: png, svg or pdf"""
    content = BytesIO()
    with rc_context(STYLE):
        figure.savefig(content, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return content.getvalue()


def _files(stem: Path) -> list[Path]:
    return [stem.with_suffix(".png"), stem.with_suffix(".svg")]


def learning_curves(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Draw the evaluation return over environment steps: a panel for each environment, a line for each run.

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
    """Draw histograms of the returns and lengths of a dataset's episodes, and of the rewards of its transitions."""
    columns = {"return of an episode": returns, "length of an episode": lengths, "reward": rewards}
    with rc_context(STYLE):
        figure = Figure(figsize=(11, 3.2), layout="constrained", facecolor="white")
        for axes, (label, values) in zip(np.asarray(figure.subplots(1, 3)).ravel(), columns.items()):
            axes.hist(np.asarray(values, float), bins=40, color=BLUE)
            axes.set(xlabel=label, ylabel="transitions" if label == "reward" else "episodes")
        figure.suptitle(name)
    return figure


def grid(panels: int, width: float = 4.4, height: float = 3.1, legend: float = 0.0) -> tuple[Figure, list[Axes]]:
    """Make axes for the panels, at most three side by side.   legend: inches above them"""
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
    """Draw the curves of every panel of a figure.   version: a key of summary.VERSIONS; x: of summary.AXES"""
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
    """Draw performance profiles and probabilities of improvement; None if there is nothing to compare."""
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
    """Draw curves, iqm and comparison as PNG and SVG in the figure's folder, the curves over every axis of the figure.

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
