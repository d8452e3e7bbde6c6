"""A folder of any runs as one figure: a panel for each task, a label for each agent, preset and config."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sbeed.reporting.figure_folder import name_in_file, read_run
from sbeed.reporting.figure_results import FigureResults, PanelResults, RunResult, is_count
from sbeed.storage import run_dir

TITLE = "Runs"
_DEPTH = 3  # folders below the one that was named
_MOST_RUNS = 10_000
_OF_A_SEED = ("seed", "seeds", "steps", "checkpoint_every", "evaluate_every", "episodes", "final_episodes")
_FILMS = (".mp4", ".gif")

Config = Mapping[str, Any]


def read_runs(path: Path) -> FigureResults | None:
    """Read the runs in that folder, or the one run that it is; None if there is none."""
    places = list(_run_folders(path, _DEPTH))
    if not places:
        return None
    if len(places) > _MOST_RUNS:
        raise ValueError(f"'{path}' holds {len(places)} runs, more than {_MOST_RUNS}")
    configs = {place: run_dir.read_config(place / run_dir.CONFIG) for place in places}
    rows = {place: _rows(place) for place in places}
    panels: dict[str, dict[Path, Config]] = {}
    for place, config in configs.items():
        panels.setdefault(_task(config, rows[place]), {})[place] = config
    filled = [
        PanelResults(task, task, "step", tuple(_results(path, some, rows))) for task, some in sorted(panels.items())
    ]
    about = {"machine": "–"}
    return FigureResults(path, "runs", TITLE, tuple(filled), ("step",), about, {}, None, place=".")


def _run_folders(path: Path, depth: int) -> Iterator[Path]:
    if run_dir.is_run(path):
        yield path
    elif depth:
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.is_symlink():
                yield from _run_folders(below, depth - 1)


def _rows(place: Path) -> list[run_dir.Row]:
    """The rows of a run that was evaluated; none of one that was not."""
    rows = run_dir.read_rows(place) if (place / run_dir.METRICS).exists() else []
    return rows if all("return" in row for row in rows) else []


def _task(config: Config, rows: list[run_dir.Row]) -> str:
    """The environment, and that a run from a dataset counts updates."""
    env = rows[0].get("env") if rows else config.get("env")
    task = name_in_file(env) if isinstance(env, str) and env else "an environment without a name"
    return f"{task}, from a dataset (steps are updates)" if config.get("data") else task


def _results(path: Path, configs: Mapping[Path, Config], rows: Mapping[Path, list[run_dir.Row]]) -> Iterator[RunResult]:
    """One result for each seed of these runs of one task."""
    for place, label in _labels(configs).items():
        id = str(place.relative_to(path)) if place != path else "."
        told = dict.fromkeys(row.get("seed") for row in rows[place]) or [configs[place].get("seed", 0)]
        films = tuple(sorted(film.name for film in place.iterdir() if film.suffix in _FILMS and film.is_file()))
        for seed in filter(is_count, told):
            begun = RunResult(label, seed, id, films=films)
            yield read_run(place, begun) if rows[place] else begun._replace(config=configs[place])


def _labels(configs: Mapping[Path, Config]) -> dict[Path, str]:
    """Agent and preset of each run, and where that is not enough the fields in which configs differ."""
    named: dict[str, dict[Path, Config]] = {}
    for place, config in configs.items():
        named.setdefault(f"{config.get('agent')} {config.get('preset')}", {})[place] = config
    labels = {}
    for name, some in named.items():
        kept = [{field: _text(x) for field, x in one.items() if field not in _OF_A_SEED} for one in some.values()]
        fields = dict.fromkeys(field for one in kept for field in one)
        differing = [field for field in fields if len({one.get(field) for one in kept}) > 1]
        for place, one in zip(some, kept):
            words = ", ".join(f"{field} {one.get(field, '–')}" for field in differing)
            labels[place] = f"{name}, {words}"[:300] if words else name
    return labels


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
