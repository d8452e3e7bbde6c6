"""Write one page for all figures of a folder: charts, tables, claims, configs. It needs no network and no other file.

Text from files enters only through `element`, which escapes it. The page's Content-Security-Policy allows the one
script and the one style in it, and nothing from elsewhere.
"""

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sbeed.reporting import runs_section, summary, svg, theory_section
from sbeed.reporting.figure_results import FigureResults, PanelResults, Results
from sbeed.reporting.html_tables import table, titled
from sbeed.reporting.markup import Markup, element, joined
from sbeed.reporting.number_format import number
from sbeed.reporting.stats import Estimate

PAGE = "report.html"
_OWN = Path(__file__).parent / "page"
_ABOUT = "Charts: point at them, touch them or use the arrow keys to read their numbers."


def page(results: Results, at: Path, version: str) -> str:
    """Write the whole document.   at: the folder that it will lie in, for the links to rows"""
    style, script = ((_OWN / f"report.{kind}").read_text() for kind in ("css", "js"))
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; base-uri 'none'"
    sections = [(f"figure-{i}", one.title, _figure(one, i, at)) for i, one in enumerate(results.figures)]
    sections += theory_section.sections(results)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", "sbeed report"),
        element("style", Markup(style)),
    )
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, _ in sections]
    body = element(
        "body",
        element("header", element("h1", "sbeed report"), element("p", _ABOUT), element("nav", element("ul", *links))),
        element("main", *(content for _, _, content in sections)),
        element("footer", element("p", f"Written by sbeed {version} from the rows that lie beside it.")),
        element("div", id="values", role="status", aria_live="polite"),
        element("script", Markup(script)),
    )
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _digest(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# ------------------------------------------------------------------------------------------------- a figure


def _figure(figure: FigureResults, i: int, at: Path) -> Markup:
    runs = {(run.id, run.seed): run for run in figure.runs}.values()  # one may be in several panels
    facts = runs_section.facts(figure, runs)
    return element(
        "section",
        element("h2", figure.title),
        element("dl", *(element("div", element("dt", name), element("dd", fact)) for name, fact in facts.items())),
        _views(figure, i),
        _legend(figure.labels) if figure.shares_labels else "",
        element("div", *(_panel(figure, panel) for panel in figure.panels), class_="panels"),
        element("h3", "Final returns"),
        element("p", _FINALS, class_="note"),
        *(_finals(panel, svg.styles(figure.order(panel))) for panel in figure.panels),
        *_comparisons(figure),
        *runs_section.details(figure, runs, at),
        class_="figure",
        id=f"figure-{i}",
    )


def _views(figure: FigureResults, i: int) -> Markup:
    """Switches between views; the style sheet does the rest."""

    def switch(title: str, group: str, options: Mapping[str, str], chosen: str) -> Markup:
        inputs = [
            element(
                "label",
                element("input", type="radio", name=f"{group}-{i}", value=value, checked=value == chosen),
                words,
            )
            for value, words in options.items()
        ]
        return element("fieldset", element("legend", title), *inputs)

    x = figure.panels[0].x if figure.panels else "step"
    return element(
        "div",
        switch("Over the seeds", "version", summary.VERSIONS, "mean"),
        switch("Horizontal axis", "axis", summary.AXES, x),
        class_="views",
    )


def _legend(labels: Sequence[str]) -> Markup:
    styles = svg.styles(labels)
    return element("ul", *(element("li", _keyed(label, styles)) for label in labels), class_="labels")


def _panel(figure: FigureResults, panel: PanelResults) -> Markup:
    charts = [
        _chart(panel, figure.order(panel), version, axis) for version in summary.VERSIONS for axis in summary.AXES
    ]
    return element(
        "div",
        element("h4", panel.name if panel.env in panel.name else f"{panel.name} ({panel.env})"),
        "" if figure.shares_labels else _legend(panel.labels),
        *charts,
        *(_caveats(panel, axis) for axis in summary.AXES),
        class_="panel",
    )


def _chart(panel: PanelResults, order: Sequence[str], version: str, axis: str) -> Markup:
    curves = summary.curves(panel, version, axis)
    view: dict[str, Any] = {"data_version": version, "data_axis": axis}
    if not curves:
        begun = any(run.curves for run in panel.runs)
        why = "These rows do not tell their iterations." if begun else "No run has rows yet."
        return element("p", why, class_="note", **view)
    title = f"{panel.name}: evaluation return over {summary.AXES[axis]}, {summary.VERSIONS[version]}"
    view["log"] = "x" if summary.lengths_differ(curves) else ""
    words: dict[str, Any] = {"title": title, "xlabel": summary.AXES[axis], "ylabel": "evaluation return"}
    return svg.chart(curves, svg.styles(order), **words, notes=summary.caveats(panel, axis), **view)


def _caveats(panel: PanelResults, axis: str) -> Markup:
    """Notes on curves that do not cover all runs to their end."""
    drawn = any(axis in run.curves for run in panel.runs)
    words = "; ".join(f"{label}: {some}" for label, some in summary.caveats(panel, axis).items())
    return element("p", f"{words}.", class_="note", data_axis=axis) if drawn and words else joined()


_FINALS = (
    "Of the last parameters, deterministic policy, never the best checkpoint. Mean with its 95% interval (Student's t "
    "over the seeds); interquartile mean with its 95% bootstrap interval. Of runs that are over and did not diverge."
)


def _finals(panel: PanelResults, styles: Mapping[str, str]) -> Markup:
    rows = []
    for label, final in summary.finals(panel).items():
        asked, found = len(final.by_seed), [value for value in final.by_seed.values() if value is not None]
        several = len(found) > 1  # else there is no interval
        mean, iqm = final.mean if several else None, final.iqm if several else None
        rows.append(
            (
                _keyed(label, styles),
                f"{len(found)} of {asked}" + (f", {final.diverged} diverged" if final.diverged else ""),
                f"{number(float(mean.value))} ± {number(float(mean.hi - mean.value))}"
                if mean
                else number(found[0] if found else None),
                _interval(iqm) if iqm else "–",
                " / ".join(number(value) for value in final.by_seed.values()),
            )
        )
    return table(panel.name, ("", "runs", "mean", "interquartile mean", "by seed"), rows, numbers=range(1, 5))


def _keyed(label: str, styles: Mapping[str, str]) -> Markup:
    return joined(svg.key(styles[label]), label)


def _interval(estimate: Estimate) -> str:
    value, lo, hi = (number(float(one)) for one in estimate)
    return f"{value} [{lo}, {hi}]"


# ------------------------------------------------------------------------------------------------- comparisons


_SCORES = "; a run that diverged has 0. Intervals: 95%, stratified bootstrap."


def _comparisons(figure: FigureResults) -> Iterable[Markup]:
    for one in summary.comparisons(figure):
        styles, title = svg.styles(one.order), f"Runs above a score, {one.title}"
        ends: dict[str, Any] = {"xlim": (0, 1), "ylim": (0, 1)}
        chart = svg.chart(one.profiles, styles, title=title, xlabel="score", ylabel="share of runs", **ends)
        rows = [(_keyed(label, styles), _interval(iqm)) for label, iqm in one.iqm.items()]
        scores = table("Score over all runs", ("", "interquartile mean"), rows, numbers=[1])
        yield element("h3", f"Comparison: {one.title}")
        yield element("p", f"{summary.SCORE.capitalize()}{_SCORES}", class_="note")
        yield element(
            "div",
            element("div", element("h4", title), chart, class_="panel"),
            element("div", scores, _chances(one, list(one.profiles)), class_="panel wide"),
            class_="panels",
        )


def _chances(one: summary.Comparison, labels: Sequence[str]) -> Markup:
    def cell(a: str, b: str) -> Markup:
        if a == b:
            return element("td", "·")
        estimate = one.improvement[a, b]
        small = element("small", f"{estimate.lo:.2f}–{estimate.hi:.2f}")
        return element("td", f"{estimate.value:.2f}", small, class_=f"w{min(5, int(6 * float(estimate.value)))}")

    head = element("tr", element("td", ""), *(element("th", label, scope="col") for label in labels))
    rows = [element("tr", element("th", a, scope="row"), *(cell(a, b) for b in labels)) for a in labels]
    title = "Chance that a run of the row beats one of the column"
    return titled(title, element("table", element("thead", head), element("tbody", *rows), class_="chance"))
