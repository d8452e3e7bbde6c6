"""One page for all figures of a folder: charts, tables, claims, configs. It needs no network and no other file.

What comes from files enters only through `element`, which escapes it; the page's own rules (its Content-Security-
Policy) forbid every script and style but the two that are written into it, and everything from elsewhere.
"""

import hashlib
import json
import os
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sbeed.reporting import summary, svg, theory_section
from sbeed.reporting.figure_folder import RUNS
from sbeed.reporting.figure_results import FigureResults, PanelResults, Results, RunResult
from sbeed.reporting.html_tables import table, titled
from sbeed.reporting.markup import Markup, element, joined
from sbeed.reporting.number_format import duration, number
from sbeed.reporting.stats import Estimate
from sbeed.storage.run_dir import CONFIG, METRICS

PAGE = "report.html"
_OWN = Path(__file__).parent / "page"
_ABOUT = "Charts: point at them, touch them or use the arrow keys to read their numbers."


def page(results: Results, at: Path, version: str) -> str:
    """The whole document.   at: the folder that it will lie in, from which links to rows lead on"""
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
    done, seconds = sum(run.over for run in runs), _seconds(runs)
    facts = {
        "figure": figure.name,
        "runs finished": f"{done} of {len(runs)}",
        **figure.facts,
        **_machines(runs),
        "time of the runs": f"{duration(sum(seconds.values()))} together",
        **_commands(figure, seconds.values()),
    }
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
        element("h3", "Runs"),
        *(_runs(panel, figure.path, at) for panel in figure.panels),
        element("h3", "Configs"),
        *(_config(panel, label) for panel in figure.panels for label in panel.labels),
        _versions(figure, runs),
        class_="figure",
        id=f"figure-{i}",
    )


def _machines(runs: Collection[RunResult]) -> dict[str, str]:
    """The machines on which runs ended, with the number of runs and their total time; commands may use several."""
    places = dict.fromkeys(run.machine for run in runs if run.machine)
    words = []
    for place in places:
        there = [run for run in runs if run.machine == place]
        together = [run.id for run in there if run.members > 1]
        among = f" ({len(together)} in {_counted(len(set(together)), 'population')})" if together else ""
        took = duration(sum(_seconds(there).values()))
        words.append(f"{place}: {_counted(len(there), 'run')}{among}, {took}")
    return {"machine": "; ".join(words)} if words else {}


def _seconds(runs: Iterable[RunResult]) -> dict[str, float]:
    """Seconds of each folder's run, so far if it is unfinished; counted once for all members of a population."""
    found: dict[str, float] = {}
    for run in runs:
        found[run.id] = max(found.get(run.id, 0.0), run.whole_seconds or run.seconds or 0.0)
    return found


def _commands(figure: FigureResults, seconds: Collection[float]) -> dict[str, str]:
    """The wall time of the figure's commands, unless it is too short for these runs even with all cores busy.

    Runs may have been copied from elsewhere, and then the time does not cover them.
    """
    told = re.match(r"[1-9]\d{0,3}(?= cores)", figure.facts["machine"])
    least = max([*seconds, sum(seconds) / int(told[0] if told else 1)])
    if figure.seconds is None or figure.seconds < least:
        return {}
    return {"wall time of the commands": duration(figure.seconds)}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


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
        yield element("h3", f"Who beats whom: {one.title}")
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


# ------------------------------------------------------------------------------------------------- what was run


def _runs(panel: PanelResults, folder: Path, at: Path) -> Markup:
    rows = [
        (
            run.label,
            run.seed,
            f"{run.steps:,}",
            "diverged" if run.diverged else number(run.final),
            _took(run),
            _links(run, folder, at),
        )
        for run in panel.runs
    ]
    columns = ("", "seed", "steps", "final return", "wall time", "files")
    return element(
        "details",
        element("summary", f"{panel.name}: {len(rows)} runs"),
        table("Rows and configs", columns, rows, range(1, 5)),
    )


def _took(run: RunResult) -> str:
    """The time of a run; members of a population share one."""
    if run.seconds is None:
        return "–"
    return duration(run.seconds) + (f" for {run.members} together" if run.members > 1 else "")


def _links(run: RunResult, folder: Path, at: Path) -> Markup:
    if not run.config:
        return joined("not begun")
    place = os.path.relpath(folder / RUNS / run.id, at)
    files = [(METRICS, "rows")] * bool(run.curves) + [(CONFIG, "config")]
    links = [element("a", words, href="./" + quote(f"{place}/{name}")) for name, words in files]
    return joined(links[0], *(joined(", ", link) for link in links[1:]))


def _config(panel: PanelResults, label: str) -> Markup:
    run = next((run for run in panel.of(label) if run.config), None)
    if run is None:
        return joined()
    fields = {name: value for name, value in run.config.items() if name not in ("seed", "seeds")}
    text = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in fields.items())
    return element("details", element("summary", f"{panel.name}, {label}"), element("pre", text, tabindex=0))


def _versions(figure: FigureResults, runs: Collection[RunResult]) -> Markup:
    """Package versions with which the runs ended, if recorded; else those of the last command."""
    told = any(run.versions for run in runs)
    counts = Counter(run.versions or "not told" for run in runs if told and run.machine)
    last = ", ".join(f"{name} {version}" for name, version in figure.versions.items())
    words = "; ".join(f"{versions} ({_counted(count, 'run')})" for versions, count in counts.items()) or last
    return element("p", f"Versions: {words}.", class_="note") if words else joined()
