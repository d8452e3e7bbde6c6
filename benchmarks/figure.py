"""growth.png and growth.svg: a pure function of rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from benchmarks.growth import MOST_FOR_K, PANELS, curve, exponent
from benchmarks.rows import Measurement
from sbeed.reporting import plots


def growth_figure(rows: Sequence[Measurement]) -> Figure:
    """Four panels, the time of an update over what grows. rows: those of `growth`."""
    with rc_context(plots.STYLE):
        figure = Figure(figsize=(10, 7.2), layout="constrained", facecolor="white")
        for axes, name, letter in zip(np.asarray(figure.subplots(2, 2)).ravel(), PANELS, "abcd"):
            _draw(axes, name, letter, [row for row in rows if row["case"] == name])
    return figure


def _draw(axes: Axes, name: str, letter: str, rows: Sequence[Measurement]) -> None:
    x, y = curve(rows, name)
    by_size = sorted(rows, key=lambda row: row["size"])
    low, high = (np.array([extreme(row["values"]) for row in by_size]) for extreme in (min, max))
    axes.fill_between(x, low, high, color=plots.BLUE, alpha=0.2, lw=0)
    axes.loglog(
        x, y, color=plots.BLUE, marker="o", ms=5, mec="white", mew=0.6, label=f"measured, exponent {exponent(x, y):.2f}"
    )
    if name == "k":
        axes.axhline(MOST_FOR_K * y[0], color=plots.BLACK, ls="--", lw=1.2, label=f"goal: {MOST_FOR_K:g} times k = 1")
        axes.set_ylim(y.min() / 2, y.max() * 3)
    else:
        axes.loglog(x, y[-1] * x / x[-1], color=plots.BLACK, ls="--", lw=1.2, label="proportional")
    panel = PANELS[name]
    axes.set(title=f"({letter})  {panel.title}", xlabel=panel.xlabel, ylabel="milliseconds of an update")
    axes.set_xticks(x, [f"{size / 1000:g}k" if size >= 1000 else f"{size:g}" for size in x], minor=False)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda seconds, _: f"{seconds * 1e3:g}")
    axes.minorticks_off()
    axes.legend(loc="upper left")
