"""Charts as SVG text. Colours are the page's (classes c0, d0, ...); the numbers that hovering shows come along."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from sbeed.reporting.markup import Markup, element, joined
from sbeed.reporting.number_format import short
from sbeed.reporting.stats import Series

WIDTH, HEIGHT = 360, 236
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 8, 40  # margins
COLOURS, DASHES = 7, 4


class Scale(NamedTuple):
    """Map numbers to coordinates; lo and hi are exponents of ten on a logarithmic scale."""

    lo: float
    hi: float
    first: float
    last: float
    log: bool = False

    def __call__(self, value: float) -> float:
        along = math.log10(value) if self.log else value
        return self.first + (along - self.lo) / (self.hi - self.lo) * (self.last - self.first)

    def covers(self, values: np.ndarray) -> np.ndarray:
        """True for the values that the scale covers."""
        return np.isfinite(values) & (values > 0) if self.log else np.isfinite(values)

    @property
    def marks(self) -> dict[str, float]:
        """Round numbers to write at an axis."""
        if not self.log:
            return {short(float(f"{at:.6g}")): at for at in ticks(self.lo, self.hi)}
        return {f"1e{at:.0f}": 10.0**at for at in ticks(self.lo, self.hi) if at == round(at)}


def chart(
    series: Mapping[str, Series],
    styles: Mapping[str, str],
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    xlim: tuple[float, float] | None = None,
    ylim: tuple[float, float] | None = None,
    log: str = "",
    notes: Mapping[str, str] = {},
    **attributes: Any,
) -> Markup:
    """Lines with their intervals.

    styles: classes by label; log: the axes, of "xy", that are logarithmic; notes: what to say with a label's numbers
    """
    across, up = (
        np.concatenate([one.x for one in series.values()]),
        np.concatenate([end for one in series.values() for end in (one.y, one.lo, one.hi)]),
    )
    if "x" not in log:
        across = np.append(across, 0.0)  # a run begins there
    x = Scale(*(xlim or _limits(across, "x" in log)), LEFT, WIDTH - RIGHT, "x" in log)
    y = Scale(*(ylim or _limits(up, "y" in log, margin=0.04)), HEIGHT - BOTTOM, TOP, "y" in log)
    return element(
        "svg",
        element("title", title),
        _axes(x, y, xlabel, ylabel),
        *(_series(one, label, styles[label], x, y, notes.get(label)) for label, one in series.items()),
        element("line", class_="cursor", x1=LEFT, x2=LEFT, y1=TOP, y2=HEIGHT - BOTTOM),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        tabindex=0,
        aria_label=title,
        class_="chart",
        data_domain=f"{x.lo:.9g} {x.hi:.9g} {x.first:g} {x.last:g}",
        data_log="x" if x.log else None,
        **attributes,
    )


def styles(order: Sequence[str]) -> dict[str, str]:
    """Styles by label: seven colours, then the same with other dashes."""
    return {label: f"c{i % COLOURS} d{i // COLOURS % DASHES}" for i, label in enumerate(order)}


def key(style: str) -> Markup:
    """A label's line in a legend."""
    line = element("line", class_="line", x1=1, x2=25, y1=5, y2=5)
    return element("svg", line, viewBox="0 0 26 10", class_=f"key {style}", aria_hidden="true")


def ticks(lo: float, hi: float, most: int = 7) -> list[float]:
    """Round numbers, 1, 2 or 5 times a power of ten apart, within [lo, hi]."""
    step = 10.0 ** math.floor(math.log10((hi - lo) / most))
    step *= next(times for times in (1, 2, 5, 10) if (hi - lo) / (step * times) <= most)
    return [i * step for i in range(math.ceil(lo / step), math.floor(hi / step) + 1)]


def _limits(values: np.ndarray, log: bool, margin: float = 0.0) -> tuple[float, float]:
    found = np.log10(values[values > 0]) if log else values
    finite = [float(value) for value in found if math.isfinite(value)] or [0.0]
    lo, hi = min(finite), max(finite)
    if hi - lo <= 1e-9 * max(abs(lo), abs(hi)):
        return lo - 1 - 0.1 * abs(lo), hi + 1 + 0.1 * abs(hi)
    return lo - margin * (hi - lo), hi + margin * (hi - lo)


def _axes(x: Scale, y: Scale, xlabel: str, ylabel: str) -> Markup:
    bottom, middle = HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
    columns = [
        joined(
            element("line", class_="grid", x1=_place(x(at)), x2=_place(x(at)), y1=TOP, y2=bottom),
            element("text", words, x=_place(x(at)), y=bottom + 15, text_anchor="middle"),
        )
        for words, at in x.marks.items()
    ]
    lines = [
        joined(
            element("line", class_="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=_place(y(at)), y2=_place(y(at))),
            element("text", words, x=LEFT - 5, y=_place(y(at) + 3.5), text_anchor="end"),
        )
        for words, at in y.marks.items()
    ]
    names = (
        element("text", xlabel, class_="name", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 6, text_anchor="middle"),
        element("text", ylabel, class_="name", transform=f"translate(10 {middle}) rotate(-90)", text_anchor="middle"),
    )
    frame = element("path", class_="frame", d=f"M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}")
    return element("g", *columns, *lines, frame, *names, class_="axes", aria_hidden="true")


def _series(one: Series, label: str, style: str, x: Scale, y: Scale, note: str | None) -> Markup:
    parts = [np.array(part) for part in _runs(x.covers(one.x) & y.covers(one.y) & y.covers(one.lo) & y.covers(one.hi))]
    marks = []
    for part in parts:
        upper = _points(one.x[part], one.hi[part], x, y)
        lower = _points(one.x[part][::-1], one.lo[part][::-1], x, y)
        marks.append(element("path", class_="band", d=f"M{'L'.join(upper + lower)}Z"))
    for part in parts:
        points = _points(one.x[part], one.y[part], x, y)
        dot = {"stroke_linecap": "round"} if len(points) == 1 else {}
        marks.append(element("path", class_="line", d=f"M{'L'.join(points * (2 if dot else 1))}", **dot))
    digits = {"x": 10}  # of millions of steps each
    numbers = {
        f"data_{name}": " ".join(f"{value:.{digits.get(name, 6)}g}" for value in values)
        for name, values in one._asdict().items()
    }
    return element("g", *marks, class_=style, data_label=label, data_note=note, **numbers)


def _runs(good: np.ndarray) -> list[list[int]]:
    """Runs of consecutive true entries."""
    return [list(some) for true, some in groupby(range(len(good)), key=lambda i: bool(good[i])) if true]


def _points(xs: np.ndarray, ys: np.ndarray, x: Scale, y: Scale) -> list[str]:
    return [f"{_place(x(a))} {_place(y(b))}" for a, b in zip(xs, ys)]


def _place(at: float) -> str:
    return f"{at:.1f}"
