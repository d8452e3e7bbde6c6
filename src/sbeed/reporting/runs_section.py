"""The runs of a figure on the page: machines and times, the table of runs, configs and versions."""

import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import quote

from sbeed.reporting.figure_folder import RUNS
from sbeed.reporting.figure_results import FigureResults, PanelResults, RunResult
from sbeed.reporting.html_tables import table
from sbeed.reporting.markup import Markup, element, joined
from sbeed.reporting.number_format import duration, number
from sbeed.storage.run_dir import CONFIG, METRICS


def facts(figure: FigureResults, runs: Collection[RunResult]) -> dict[str, str]:
    """Facts for the head of the figure's section.   runs: each run once"""
    done, seconds = sum(run.over for run in runs), _seconds(runs)
    return {
        "figure": figure.name,
        "runs finished": f"{done} of {len(runs)}",
        **figure.facts,
        **_machines(runs),
        "time of the runs": f"{duration(sum(seconds.values()))} together",
        **_commands(figure, seconds.values()),
    }


def details(figure: FigureResults, runs: Collection[RunResult], at: Path) -> Iterable[Markup]:
    """The runs, their configs and their versions.   at: the folder that the page will lie in"""
    yield element("h3", "Runs")
    yield from (_runs(panel, figure.path, at) for panel in figure.panels)
    yield element("h3", "Configs")
    yield from (_config(panel, label) for panel in figure.panels for label in panel.labels)
    yield _versions(figure, runs)


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
