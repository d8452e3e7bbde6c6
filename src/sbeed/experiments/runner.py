"""A figure's runs from wherever they stand to their end: the same call again does only what is left to do."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from sbeed.about import plain
from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import find
from sbeed.experiments.executors import Executor, Task
from sbeed.experiments.machine import machine
from sbeed.experiments.spec import Figure, Run, arranged, read_run, runs_of, shown
from sbeed.experiments.worker import PROGRESS, RESULT, SPEC, write_json
from sbeed.training import rundir, tensors
from sbeed.training.checkpoints import steps_of
from sbeed.training.run import RunSpec
from sbeed.training.sources import spec_of

FIGURE, RUNS = "figure.json", "runs"
MOST_DEATHS = 10  # of a run, one after the other, without a new checkpoint
LOOK = 0.5  # seconds between two looks at what is running


class Show(Protocol):
    """Who hears how it goes."""

    def begin(self, steps: int) -> None:
        """So many steps there are in all."""

    def look(self, done: int, running: Mapping[Path, tuple[Task, int]]) -> None:
        """Steps that are done in all, and where each run that is running stands."""

    def say(self, line: str) -> None: ...


def run_figure(
    figure: Figure, out: Path, executor: Executor, *, seeds: int, scale: str, show: Show, together: bool = False
) -> list[str]:
    """Leaves figure.json and runs/<id>/ in `out`; returns a line for each run that could not be finished.

    together: a curve's seeds are one run, a population. What is done, alone or together, is not done again.
    """
    path, began = out / FIGURE, time.perf_counter()
    seconds = _earlier_seconds(path, figure.name, scale)
    (out / RUNS).mkdir(exist_ok=True)
    holding = arranged(figure, seeds, together=together, done=done_in(out / RUNS))
    tasks = [Task(title, run, out / RUNS / run.id) for title, run in runs_of(figure, seeds, holding)]
    check_settings(tasks)
    about = {
        "name": figure.name,
        "title": figure.title,
        "panels": shown(figure, seeds, holding),
        "scale": scale,
        "executor": executor.name,
        "machine": machine(),
        "seconds": seconds,
        "versions": tensors.versions(),
    }
    write_json(path, about)

    def count_time() -> None:
        write_json(path, {**about, "seconds": seconds + time.perf_counter() - began})

    try:
        return finish(tasks, executor, show, on_end=count_time)
    finally:
        count_time()


def finish(
    tasks: Iterable[Task], executor: Executor, show: Show, on_end: Callable[[], None] = lambda: None
) -> list[str]:
    """All that is left of these runs, in their order; a line for each that could not be finished.

    on_end: of each run.
    """
    over, left = _parted(tasks)
    done, waiting, deaths = sum(task.run.spec.steps for task in over), deque(left), Deaths()
    running: dict[Path, Task] = {}
    failures: list[str] = []
    show.begin(done + sum(task.run.spec.steps for task in left))
    while waiting or running:
        while waiting and len(running) < executor.slots:
            task = waiting.popleft()
            executor.start(task)
            running[task.path] = task
        for task, outcome in executor.ended(LOOK):
            del running[task.path]
            if outcome.kind == "died" and deaths.may_go_on(task):
                waiting.append(task)
                continue
            done += task.run.spec.steps
            if outcome.kind == "done":
                show.say(f"{task.title}: {_score(task.path)}")
            else:
                failures.append(f"{task.title} in '{task.path}': {outcome.message}")
                show.say(failures[-1])
            on_end()
        standing = {path: (task, step_of(task)) for path, task in running.items()}
        show.look(done + sum(step for _, step in standing.values()), standing)
    return failures


def _parted(tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    """Those that are done, and those that are not."""
    parts: tuple[list[Task], list[Task]] = ([], [])
    for task in tasks:
        parts[not is_done(task.path)].append(task)
    return parts


class Deaths:
    """Of workers; one that is killed wherever it gets is in the end not started again."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int]] = {}  # where the run stood, deaths there

    def may_go_on(self, task: Task) -> bool:
        stands = max(steps_of(task.path), default=-1)
        before, deaths = self._seen.get(task.path, (-1, 0))
        deaths = deaths + 1 if stands <= before else 1
        self._seen[task.path] = (stands, deaths)
        return deaths < MOST_DEATHS


def is_done(path: Path) -> bool:
    """Finished, or diverged."""
    return (path / RESULT).is_file()


def done_in(folder: Path) -> list[Run]:
    """The runs there that are."""
    done = [path for path in sorted(folder.iterdir()) if is_done(path) and (path / SPEC).is_file()]
    return [run for path in done if (run := read_run(rundir.read_config(path / SPEC))).id == path.name]


def step_of(task: Task) -> int:
    """Where a run stands, as its worker last said."""
    try:
        return min(int((task.path / PROGRESS).read_text()[:12]), task.run.spec.steps)
    except (OSError, ValueError):
        return 0


def _score(path: Path) -> str:
    result = json.loads((path / RESULT).read_text())
    if result["outcome"] == "diverged":
        return f"diverged: {result['message']}"
    return f"return {result['return']:.1f}, {result['seconds']:.0f} s"


def check_settings(tasks: Iterable[Task]) -> None:
    """A ValueError that names the first run which is there and was made by presets that are others now.

    What a run is called is what was asked for. Of the code that it meets the presets are what changes most.
    """
    for task in tasks:
        if not rundir.is_run(task.path):
            continue
        there = rundir.read_config(task.path / rundir.CONFIG)
        for name, value in _config(task.run.spec).items():
            if there.get(name) != value:
                raise ValueError(
                    f"'{task.path}' was made with {name} {there.get(name)!r}, which is {value!r} now: "
                    "remove it, or choose another directory"
                )


def _config(spec: RunSpec) -> dict[str, Any]:
    preset = find(spec.agent).preset(spec.preset, _env_spec(spec.env, spec.noise))
    return plain(with_fields(preset, spec.fields))


_env_spec = cache(spec_of)  # which makes an environment


def _earlier_seconds(path: Path, name: str, scale: str) -> float:
    """That calls before this one took; a ValueError where another figure, or another size of it, lies."""
    if not path.exists():
        return 0.0
    there = rundir.read_config(path)
    if (there.get("name"), there.get("scale")) != (name, scale):
        raise ValueError(f"'{path}' is of another figure ({there.get('name')}, {there.get('scale')})")
    return float(there.get("seconds") or 0)
