"""Run a figure's runs to their end; calling it again does only the remaining work."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sbeed.agents.configs import config_of
from sbeed.agents.knobs import plain_fields
from sbeed.agents.registry import configured
from sbeed.envs.task import spec_of
from sbeed.experiments.executors import Executor, Job
from sbeed.experiments.machine import machine
from sbeed.experiments.spec import Figure, Places, Run, among, arranged, chosen, places_of, read_run, runs_of, shown
from sbeed.reporting import figure_folder
from sbeed.storage import run_dir, tensors
from sbeed.storage.checkpoints import steps_of
from sbeed.training.run import RunSpec

MOST_DEATHS = 10  # of a run, one after the other, without a new checkpoint
LOOK = 0.5  # seconds between two looks at what is running


class Show(Protocol):
    """Receives the progress of runs."""

    def begin(self, steps: int) -> None:
        """Announce the total number of steps."""

    def look(self, done: int, running: Mapping[Path, tuple[Job, int]]) -> None:
        """Report the total of steps done, and the step of each running run."""

    def say(self, line: str) -> None: ...


def run_figure(
    figure: Figure,
    out: Path,
    executor: Executor,
    *,
    seeds: int,
    scale: str,
    show: Show,
    only: Collection[str] = (),
    together: bool = False,
) -> list[str]:
    """Write figure.json and runs/<id>/ into `out`; returns a line for each run that could not be finished.

    only: what to run of it, by name, if not all; what earlier calls asked for stays in the figure. together: a curve's
    seeds are one run, a population. What is done, alone or together, is not done again.
    """
    began = time.perf_counter()
    there = _earlier(out, figure.name, scale)
    runs = figure_folder.make_runs(out)
    part, done = chosen(figure, only), done_in(out)
    holding = arranged(part, seeds, together=together, done=done)
    jobs = [Job(title, run, runs / run.id) for title, run in runs_of(part, seeds, holding)]
    check_settings(jobs)
    places = places_of(shown(part, seeds)) | there.places
    most = 1 + max(seed for *_, seed in places) - figure.first_seed
    about = {
        "name": figure.name,
        "title": figure.title,
        "panels": among(shown(figure, most, holding), places),
        "scale": scale,
        "executor": executor.name,
        "machine": machine(),
        "seconds": there.seconds,
        "versions": tensors.versions(),
    }
    figure_folder.write_figure(out, about)

    def count_time() -> None:
        figure_folder.write_figure(out, {**about, "seconds": there.seconds + time.perf_counter() - began})

    try:
        return finish(jobs, executor, show, on_end=count_time)
    finally:
        count_time()


def finish(jobs: Iterable[Job], executor: Executor, show: Show, on_end: Callable[[], None] = lambda: None) -> list[str]:
    """Finish these runs, in their order; returns a line for each that could not be finished.

    on_end: called at the end of each run.
    """
    over, left = _parted(jobs)
    done, waiting, deaths = sum(job.run.spec.steps for job in over), deque(left), Deaths()
    running: dict[Path, Job] = {}
    failures: list[str] = []
    show.begin(done + sum(job.run.spec.steps for job in left))
    while waiting or running:
        while waiting and len(running) < executor.slots:
            job = waiting.popleft()
            executor.start(job)
            running[job.path] = job
        for job, outcome in executor.ended(LOOK):
            del running[job.path]
            if outcome.kind == "died" and deaths.may_go_on(job):
                waiting.append(job)
                continue
            done += job.run.spec.steps
            if outcome.kind == "done":
                show.say(f"{job.title}: {_score(job.path)}")
            else:
                failures.append(f"{job.title} in '{job.path}': {outcome.message}")
                show.say(failures[-1])
            on_end()
        under_way = {path: (job, step_of(job)) for path, job in running.items()}
        show.look(done + sum(step for _, step in under_way.values()), under_way)
    return failures


def _parted(jobs: Iterable[Job]) -> tuple[list[Job], list[Job]]:
    """Split jobs into the finished and the unfinished ones."""
    parts: tuple[list[Job], list[Job]] = ([], [])
    for job in jobs:
        parts[not figure_folder.is_done(job.path)].append(job)
    return parts


class Deaths:
    """Count the deaths of workers; one that keeps dying without a new checkpoint is not started again."""

    def __init__(self) -> None:
        self._seen: dict[Path, tuple[int, int]] = {}  # where the run stood, deaths there

    def may_go_on(self, job: Job) -> bool:
        stands = max(steps_of(job.path), default=-1)
        before, deaths = self._seen.get(job.path, (-1, 0))
        deaths = deaths + 1 if stands <= before else 1
        self._seen[job.path] = (stands, deaths)
        return deaths < MOST_DEATHS


def done_in(out: Path) -> list[Run]:
    """The runs of a figure's folder that are done."""
    return [run for path in figure_folder.done_in(out) if (run := _described(path)).id == path.name]


def _described(path: Path) -> Run:
    try:
        return read_run(figure_folder.read_spec(path))
    except ValueError as error:
        raise ValueError(f"'{path / figure_folder.SPEC}': {error}") from None


def step_of(job: Job) -> int:
    """The step of a run, as its worker last reported."""
    return min(figure_folder.read_progress(job.path), job.run.spec.steps)


def _score(path: Path) -> str:
    result = figure_folder.read_end(path)
    if result["outcome"] == "diverged":
        return f"diverged: {result['message']}"
    return f"return {result['return']:.1f}, {result['seconds']:.0f} s"


def check_settings(jobs: Iterable[Job]) -> None:
    """Raise a ValueError that names the first existing run whose presets have changed since it was made.

    A run's id covers only what was asked for. Of the code behind it, the presets change most often. A run that is older
    than a setting had that setting's default.
    """
    for job in jobs:
        if not run_dir.is_run(job.path):
            continue
        there = run_dir.read_config(job.path / run_dir.CONFIG)
        defaults = plain_fields(config_of(job.run.spec.agent, job.run.spec.preset)())
        for name, value in full_config(job.run.spec).items():
            if (before := there.get(name, defaults[name])) != value:
                raise ValueError(
                    f"'{job.path}' was made with {name} {before!r}, which is {value!r} now: "
                    "remove it, or choose another directory"
                )


def full_config(spec: RunSpec) -> dict[str, Any]:
    """The preset's config under the fields that the run sets itself, as plain data."""
    return plain_fields(configured(spec.agent, spec.preset, env_spec(spec.env, spec.noise), spec.fields))


env_spec = cache(spec_of)  # which makes an environment


class _Earlier(NamedTuple):
    """The time that earlier calls took, and where they drew each run."""

    seconds: float = 0.0
    places: Places = frozenset()


def _earlier(out: Path, name: str, scale: str) -> _Earlier:
    """Read earlier calls; raise a ValueError if the folder has another figure, or another size of it."""
    there = figure_folder.read_asked(out)
    if there is None:
        return _Earlier()
    path = out / figure_folder.FIGURE
    if (there.get("name"), there.get("scale")) != (name, scale):
        raise ValueError(f"'{path}' belongs to another figure ({there.get('name')}, {there.get('scale')})")
    try:
        return _Earlier(float(there["seconds"]), places_of(there["panels"]))
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"'{path}' is not a figure that sbeed wrote") from None
