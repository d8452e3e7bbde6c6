"""A figure's folder: writes its files and reads them back. What is read is data and never trusted.

figure.json            name, title, scale, executor, machine, versions, seconds, and the panels: name, env, x, and of
                       each run the label, the seed and the id
runs/<id>/             a run's directory: config.yaml, metrics.jsonl; `progress`, its step, while it is under way;
                       when it is over spec.json, what was asked for, and result.json, what came of it
claims.json            what `sbeed theory --json` printed, in the folder or in one below it
theory.csv             what `sbeed figure theory` wrote, there too
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sbeed.reporting import stats
from sbeed.reporting.figure_results import (
    FigureResults,
    PanelResults,
    Results,
    RunResult,
    diverged_in,
    is_count,
    over_iterations,
    without_repeats,
)
from sbeed.storage import run_dir
from sbeed.storage.safe_open import read_safely
from sbeed.storage.safe_write import sweep, write_file

FIGURE, CLAIMS, THEORY, RUNS = "figure.json", "claims.json", "theory.csv", "runs"
SPEC, RESULT, PROGRESS = "spec.json", "result.json", "progress"
THEORY_COLUMNS = ("panel", "series", "x", "y", "lo", "hi")
AXES = ("step", "iteration")
_MOST_BYTES = {name: 2**24 for name in (FIGURE, CLAIMS, THEORY, RESULT, run_dir.CONFIG)} | {run_dir.METRICS: 2**26}
_MOST_PANELS, _MOST_RUNS, _MOST_LABELS = 100, 10_000, 100
_MOST_LETTERS = 300  # of a name
_LARGEST = 1e100  # beyond it squares and sums are no numbers any more
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


# ------------------------------------------------------------------------------------------------- writing


def make_runs(folder: Path) -> Path:
    """The directory of the runs, created if missing."""
    if (folder / RUNS).is_symlink():  # no reader would follow it
        raise ValueError(f"'{folder / RUNS}' is a link, which may lead anywhere")
    (folder / RUNS).mkdir(exist_ok=True)
    return folder / RUNS


def write_figure(folder: Path, found: Mapping[str, Any]) -> None:
    """found: name, title, panels, scale, executor, machine, seconds, versions"""
    _write_json(folder / FIGURE, found)


def write_theory(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    table = io.StringIO(newline="")
    writer = csv.DictWriter(table, THEORY_COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    write_file(folder / THEORY, table.getvalue().encode())
    return folder / THEORY


def write_progress(run: Path, step: int) -> None:
    write_file(run / PROGRESS, str(step).encode())


def forget_progress(run: Path) -> None:
    (run / PROGRESS).unlink(missing_ok=True)


def write_end(run: Path, asked: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Write a run's spec and result, which mark it as done."""
    _write_json(run / SPEC, asked)
    _write_json(run / RESULT, result)


def forget_end(run: Path) -> None:
    """Delete the end of a run that has no directory of its own, left by a worker that was killed while writing it."""
    for name in (run_dir.METRICS, SPEC, f".{SPEC}", f".{RESULT}"):
        (run / name).unlink(missing_ok=True)
    if run.is_dir():
        sweep(run)


def _write_json(path: Path, found: Any) -> None:
    """Write JSON atomically."""
    write_file(path, (json.dumps(found, indent=1) + "\n").encode())


# ------------------------------------------------------------------------------------------------- progress


def is_done(run: Path) -> bool:
    """True if the run finished or diverged."""
    return (run / RESULT).is_file()


def done_in(folder: Path) -> list[Path]:
    """The runs that are done and have a spec."""
    return [run for run in sorted((folder / RUNS).iterdir()) if is_done(run) and (run / SPEC).is_file()]


def read_spec(run: Path) -> dict[str, Any]:
    """Read the spec of a run that is done."""
    return run_dir.read_config(run / SPEC)


def read_end(run: Path) -> dict[str, Any]:
    """Read the result of a run that is done."""
    return _read_json(run / RESULT)


def read_progress(run: Path) -> int:
    """The step of a run, as its worker last reported; 0 before its first report."""
    try:
        return int(read_safely(run / PROGRESS, 12))
    except (OSError, ValueError):
        return 0


def read_asked(folder: Path) -> dict[str, Any] | None:
    """Read figure.json; None if there is no figure yet."""
    return run_dir.read_config(folder / FIGURE) if (folder / FIGURE).exists() else None


# ------------------------------------------------------------------------------------------------- reading


def read_results(path: Path) -> Results:
    """Read a figure's folder, or a folder of several. A file that sbeed did not write is a one-line ValueError."""
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"'{path}' is not a directory")
    places = [path, *sorted(place for place in path.iterdir() if place.is_dir() and not place.is_symlink())]
    figures = [read_figure(place) for place in places if (place / FIGURE).exists()]
    claims = [row for place in places if (place / CLAIMS).exists() for row in _read_claims(place / CLAIMS)]
    theory = [row for place in places if (place / THEORY).exists() for row in _read_theory(place / THEORY)]
    if not (figures or claims or theory):
        raise FileNotFoundError(f"'{path}' holds no {FIGURE}, {CLAIMS} or {THEORY}, and none of its folders does")
    return Results(figures, claims, theory)


def read_figure(path: Path) -> FigureResults:
    file = path / FIGURE
    found = _read_json(file)
    try:
        for word, most, count in (
            ("panels", _MOST_PANELS, len(found["panels"])),
            ("runs", _MOST_RUNS, sum(len(panel["runs"]) for panel in found["panels"])),
            ("labels", _MOST_LABELS, len({run["label"] for panel in found["panels"] for run in panel["runs"]})),
        ):
            if count > most:
                raise ValueError(f"it has {count} {word}, more than {most}")
        panels = [_asked_panel(panel) for panel in found["panels"]]
        figure = FigureResults(
            path,
            _name(found["name"]),
            _name(found["title"]),
            panels=without_repeats(panels),
            axes=tuple(dict.fromkeys(panel.x for panel in panels)),
            facts={word: _name(found.get(word) or "–") for word in ("scale", "executor", "machine")},
            versions=dict(found.get("versions", {})),
            seconds=_finite(found.get("seconds")),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"'{file}' is not a figure that sbeed wrote: {reason}") from None
    if (path / RUNS).is_symlink():
        raise ValueError(f"'{path / RUNS}' is a link, which may lead anywhere")
    # A run may be in several panels.
    read = {(run.id, run.seed): _read_run(path / RUNS / run.id, run) for run in figure.runs}
    filled = [
        panel._replace(runs=tuple(read[run.id, run.seed]._replace(label=run.label) for run in panel.runs))
        for panel in figure.panels
    ]
    return figure._replace(panels=tuple(filled))


def _asked_panel(panel: Mapping[str, Any]) -> PanelResults:
    if panel["x"] not in AXES:
        raise ValueError(f"x must be one of {', '.join(AXES)}, got {panel['x']!r:.50}")
    return PanelResults(_name(panel["name"]), _name(panel["env"]), panel["x"], tuple(map(_asked_run, panel["runs"])))


def _asked_run(run: Mapping[str, Any]) -> RunResult:
    id, seed = run["id"], run["seed"]
    if not (isinstance(id, str) and _ID.fullmatch(id)):
        raise ValueError(f"{id!r:.50} is not the name of a run's folder")
    if not is_count(seed):
        raise ValueError(f"{seed!r:.50} is not a seed")
    return RunResult(_name(run["label"]), seed, id)


def _read_run(path: Path, run: RunResult) -> RunResult:
    if path.is_symlink():
        raise ValueError(f"'{path}' is a link, which may lead anywhere")
    if (path / RESULT).exists():
        result = _read_json(path / RESULT)
        try:
            run = run._replace(
                diverged=diverged_in(result, run.seed),
                machine=_name(result.get("machine", "–")),
                whole_seconds=_finite(result.get("seconds")),
                versions=_name(", ".join(f"{name} {one}" for name, one in result.get("versions", {}).items() if one)),
            )
        except (AttributeError, ValueError):
            raise ValueError(f"'{path / RESULT}' is not a result that sbeed wrote") from None
    if (path / run_dir.CONFIG).exists():
        run = run._replace(config=run_dir.parse_config(_text(path / run_dir.CONFIG), path / run_dir.CONFIG))
    rows, file = [], path / run_dir.METRICS
    if file.exists():
        found = run_dir.parse_rows(_text(file).splitlines(keepends=True), file)
        rows = [_checked(row, file) for row in found if row.get("seed", run.seed) == run.seed]
    if not rows:
        return run
    steps, returns = stats.curve(rows)
    asked = run.config.get("steps")
    over = rows[-1]["final"] and not (is_count(asked) and steps[-1] < asked)  # a run that was stopped has a final row
    return run._replace(
        curves={"step": (steps, returns), **over_iterations(rows, steps, returns, run.config)},
        steps=int(steps[-1]),
        final=rows[-1]["return"] if over and not run.diverged else None,
        seconds=rows[-1]["seconds"],
    )


def _checked(row: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Check a row and keep the needed fields; a return that is not finite becomes None."""
    if not is_count(row.get("step")) or not is_count(row.get("iteration", 0)) or "return" not in row:
        raise ValueError(f"'{file}' has a line that is not a row of sbeed's")
    return {
        **{name: row[name] for name in ("step", "iteration") if name in row},
        "final": row.get("final") is True,
        **{name: _finite(row.get(name)) for name in ("return", "seconds")},
    }


def _read_claims(file: Path) -> list[Mapping[str, Any]]:
    found = _read_json(file)
    if not (isinstance(found, list) and len(found) < 1000 and all(isinstance(row, dict) for row in found)):
        raise ValueError(f"'{file}' is not what `sbeed theory --json` prints")
    try:
        return [
            {
                "name": _name(row["name"]),
                "says": str(row.get("says", "")),
                **{word: row[word] is True for word in ("holds", "counterexample_fails")},
                **{word: int(row[word]) for word in ("held", "mdps")},
                **{word: _finite(row[word]) for word in ("margin", "seconds")},
            }
            for row in found
        ]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"'{file}' is not what `sbeed theory --json` prints") from None


def _read_theory(file: Path) -> list[Mapping[str, Any]]:
    try:
        return [
            {
                **{word: _name(row[word]) for word in ("panel", "series")},
                **{word: float(row[word]) for word in stats.Series._fields},
            }
            for row in csv.DictReader(_text(file).splitlines())
        ]
    except (KeyError, TypeError, ValueError, csv.Error):
        raise ValueError(f"'{file}' is not what `sbeed figure theory` writes") from None


def _read_json(file: Path) -> Any:
    try:
        return json.loads(_text(file))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{file}' cannot be read: {error}") from None


def _text(file: Path) -> str:
    """Read a plain file: no link, no pipe, not more bytes than it could have."""
    try:
        return read_safely(file, _MOST_BYTES[file.name]).decode()
    except (OSError, ValueError) as error:
        raise ValueError(f"'{file}' cannot be read ({error})") from None


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _MOST_LETTERS:
        raise ValueError(f"{text!r:.50} is not a name")
    return text


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) and abs(value) < _LARGEST else None
