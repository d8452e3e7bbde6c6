"""Runs to their end, wherever they are run and whatever happens to their workers."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.reliability.kin import all_processes, family, parent_of, words_of
from benchmarks.reliability.runs import rows_without_clocks
from rich.progress import Progress

from sbeed.experiments import runner, worker
from sbeed.experiments.executors import MEMORY, Job, Local, Ray, runs_that_fit
from sbeed.experiments.progress_bars import Bars
from sbeed.experiments.runner import MOST_DEATHS, finish, run_figure
from sbeed.experiments.spec import Curve, Figure, Panel, Run, arranged, describe, read_run, runs_of
from sbeed.experiments.worker import Outcome, work
from sbeed.reporting.figure_folder import RESULT, SPEC, write_end
from sbeed.storage.checkpoints import steps_of
from sbeed.storage.run_dir import read_rows
from sbeed.training.run import RunSpec
from tests.experiments.silent import Silent
from tests.tiny import TINY

ROOT = Path(__file__).parents[2]
SPEC_OF_ALL = RunSpec(
    "Pendulum-v1", steps=3_000, fields=TINY, evaluate_every=1_000, episodes=1, final_episodes=1, checkpoint_every=500
)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr(runner, "LOOK", 0.05)


def _tasks(out, seeds=2):
    (out / "runs").mkdir(parents=True, exist_ok=True)
    return [
        Job(f"seed {seed}", run, out / "runs" / run.id) for seed in range(seeds) for run in [Run(SPEC_OF_ALL, seed)]
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Rows of two runs, by processes of their own that nothing happened to."""
    jobs = _tasks(tmp_path_factory.mktemp("undisturbed"))
    assert finish(jobs, Local(2), Silent()) == []
    return [rows_without_clocks(job.path) for job in jobs]


class Killer(Silent):
    """Kills the worker of every run that has come further since it was last killed, a few times each."""

    def __init__(self, times, victim=lambda pid: pid):
        self._times, self._victim, self.kills = times, victim, {}

    def look(self, done, running):
        for path in running:
            stands, before = max(steps_of(path), default=0), self.kills.setdefault(path, [0])
            if stands > before[-1] and len(before) <= self._times:
                os.kill(self._victim(int((path / "lock").read_text())), signal.SIGKILL)
                before.append(stands)


# ------------------------------------------------------------------------------------------------- whatever runs them


class Scripted:
    """Ends each run as it is told to, one after the other."""

    name, slots = "scripted", 2

    def __init__(self, *outcomes, on_start=lambda job: None):
        self._outcomes, self._on_start, self.started, self._running = list(outcomes), on_start, [], []

    def start(self, job):
        self._on_start(job)
        self.started.append(job.run.seed)
        self._running.append(job)

    def ended(self, seconds):
        job, outcome = self._running.pop(0), self._outcomes.pop(0)
        if outcome.kind == "done":
            job.path.mkdir()
            write_end(job.path, describe(job.run), {"outcome": "finished", "return": 1.0, "seconds": 2.0})
        return [(job, outcome)]


DONE, DIED = Outcome("done"), Outcome("died", "killed")


def test_what_is_done_is_not_done_again(tmp_path):
    jobs, show = _tasks(tmp_path, seeds=3), Silent()
    assert finish(jobs[:1], Scripted(DONE), Silent()) == []
    executor = Scripted(DONE, DONE)
    assert finish(jobs, executor, show) == []
    assert executor.started == [1, 2]
    assert show.total == 3 * SPEC_OF_ALL.steps


def test_who_died_goes_on_and_who_failed_is_named(tmp_path):
    executor = Scripted(DIED, Outcome("failed", "no such thing"), DONE)
    (failure,) = finish(_tasks(tmp_path), executor, Silent())
    assert executor.started == [0, 1, 0]
    assert failure.startswith("seed 1 in ")
    assert failure.endswith(": no such thing")


def test_a_run_that_dies_where_it_stands_is_given_up_and_one_that_comes_further_is_not(tmp_path):
    executor = Scripted(*[DIED] * MOST_DEATHS)
    assert len(finish(_tasks(tmp_path, seeds=1), executor, Silent())) == 1
    assert executor.started == [0] * MOST_DEATHS

    def come_further(job):
        (job.path / "checkpoints" / f"step_{len(moving.started):09}").mkdir(parents=True)

    (job,) = _tasks(tmp_path / "moving", seeds=1)
    moving = Scripted(*[DIED] * 2 * MOST_DEATHS, Outcome("failed", "at last"), on_start=come_further)
    assert len(finish([job], moving, Silent())) == 1
    assert moving.started == [0] * (2 * MOST_DEATHS + 1)


def _figure(**fields):
    spec = replace(SPEC_OF_ALL, fields={**TINY, **fields})
    return Figure("tiny", "A tiny one", (Panel("a", "Pendulum-v1", (Curve("one", spec), Curve("other", spec))),))


def test_a_figure_says_what_it_shows(tmp_path):
    executor = Scripted(DONE, DONE)
    run_figure(_figure(), tmp_path, executor, seeds=2, scale="smoke", show=Silent())
    assert executor.started == [0, 1]  # both curves are of the same runs
    figure = json.loads((tmp_path / "figure.json").read_text())
    (panel,) = figure["panels"]
    assert (figure["name"], figure["scale"], figure["executor"], panel["x"]) == ("tiny", "smoke", "scripted", "step")
    shown = [(run["label"], run["seed"]) for run in panel["runs"]]
    assert shown == [("one", 0), ("one", 1), ("other", 0), ("other", 1)]
    assert {run["id"] for run in panel["runs"]} == {path.name for path in (tmp_path / "runs").iterdir()}
    before = figure["seconds"]
    run_figure(_figure(), tmp_path, Scripted(), seeds=2, scale="smoke", show=Silent())
    assert json.loads((tmp_path / "figure.json").read_text())["seconds"] > before
    with pytest.raises(ValueError, match="another figure"):
        run_figure(_figure(), tmp_path, Scripted(), seeds=2, scale="full", show=Silent())


def test_the_seeds_of_a_curve_may_be_one_run(tmp_path):
    executor = Scripted(DONE)
    run_figure(_figure(), tmp_path, executor, seeds=2, scale="smoke", show=Silent(), together=True)
    (panel,) = json.loads((tmp_path / "figure.json").read_text())["panels"]
    assert [(run["label"], run["seed"]) for run in panel["runs"]] == [
        ("one", 0),
        ("one", 1),
        ("other", 0),
        ("other", 1),
    ]
    assert {run["id"] for run in panel["runs"]} == {path.name for path in (tmp_path / "runs").iterdir()}
    assert executor.started == [0]


@pytest.mark.parametrize("first", [True, False])
def test_what_was_done_together_is_not_done_alone_nor_the_other_way_round(tmp_path, first):
    def asked(executor, seeds, together):
        run_figure(_figure(), tmp_path, executor, seeds=seeds, scale="smoke", show=Silent(), together=together)
        (panel,) = json.loads((tmp_path / "figure.json").read_text())["panels"]
        return [run["id"] for run in panel["runs"]]

    ids = asked(Scripted(DONE, DONE), 2, first)
    assert asked(nothing := Scripted(), 2, not first) == ids
    assert nothing.started == []
    more = Scripted(DONE, DONE)
    assert asked(more, 4, not first)[:2] == ids[:2]
    assert more.started == ([2, 3] if first else [2])  # two alone, or a population of two


def test_seeds_that_are_left_are_one_population_if_they_come_one_after_the_other():
    spec = _figure().panels[0].curves[0].spec
    for there, members in (((), [5] * 5), ((0, 1), [1, 1, 3, 3, 3]), ((2,), [1] * 5), ((0, 1, 2, 3, 4), [1] * 5)):
        holding = arranged(_figure(), 5, together=True, done=[Run(spec, seed) for seed in there])
        assert [holding(spec, seed).members for seed in range(5)] == members


def test_a_preset_that_has_changed_since_is_found(tmp_path):
    ((_, run),) = runs_of(_figure(), 1)[:1]
    path = tmp_path / "runs" / run.id
    path.mkdir(parents=True)
    settings = runner.full_config(run.spec)
    (path / "config.yaml").write_text(json.dumps(settings))
    runner.check_settings([Job("", run, path)])
    (path / "config.yaml").write_text(json.dumps(settings | {"trace": 0.125}))
    with pytest.raises(ValueError, match=r"made with trace 0.125, which is 0.5 now"):
        runner.check_settings([Job("", run, path)])


def test_a_spec_that_is_no_run_is_named(tmp_path):
    path = tmp_path / "runs" / "0"
    path.mkdir(parents=True)
    for name in (SPEC, RESULT):
        (path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"runs/0/spec.json': not a run that sbeed wrote"):
        run_figure(_figure(), tmp_path, Scripted(), seeds=1, scale="smoke", show=Silent())


def test_bars_show_the_whole_and_every_run_that_is_running(tmp_path):
    first, second = _tasks(tmp_path)
    progress = Progress(disable=True)
    show = Bars(progress, "tiny")
    show.begin(6_000)
    show.look(1_500, {first.path: (first, 1_000), second.path: (second, 500)})
    lines = {line.description: (line.completed, line.total) for line in progress.tasks}
    assert lines == {"tiny": (1_500, 6_000), "seed 0": (1_000, 3_000), "seed 1": (500, 3_000)}
    show.look(3_600, {second.path: (second, 600)})
    lines = {line.description: (line.completed, line.total) for line in progress.tasks}
    assert lines == {"tiny": (3_600, 6_000), "seed 1": (600, 3_000)}


def test_what_fits_into_a_machine_of_a_cluster():
    assert runs_that_fit({"CPU": 4.0, "memory": 100 * MEMORY}) == 4
    assert runs_that_fit({"CPU": 4.0, "memory": 2.5 * MEMORY}) == 2
    assert runs_that_fit({"CPU": 4.0, "memory": 0.5 * MEMORY}) == runs_that_fit({"memory": 9 * MEMORY}) == 0


# ------------------------------------------------------------------------------------------------- a worker


def test_a_run_that_diverges_is_over(tmp_path):
    run = Run(replace(SPEC_OF_ALL, steps=64, fields={**TINY, "Q_step_size": 1e30, "dual_step_size": 1e30}), 0)
    outcome = work(tmp_path / "run", run)
    assert outcome.kind == "done"
    result = json.loads((tmp_path / "run" / RESULT).read_text())
    assert (result["outcome"], result["return"]) == ("diverged", None)
    assert "not finite" in result["message"]
    assert read_rows(tmp_path / "run") == []
    assert read_run(json.loads((tmp_path / "run" / SPEC).read_text())) == run


def test_what_died_while_it_said_that_it_had_diverged_is_done_again(tmp_path):
    run = Run(SPEC_OF_ALL, 0)
    path = tmp_path / run.id
    path.mkdir()
    (path / "metrics.jsonl").touch()
    (path / SPEC).write_text(json.dumps(describe(run)))
    assert work(path, run) == DONE
    assert read_rows(path)[-1]["final"]


def test_a_device_without_memory_and_a_killed_environment_are_deaths(tmp_path, monkeypatch):
    def end(*args, **kwargs):
        raise RuntimeError("a worker process died\n(exit code -9)")

    monkeypatch.setattr(worker, "make_trainer", end)
    assert work(tmp_path / "run", Run(SPEC_OF_ALL, 0)) == ("died", "a worker process died (exit code -9)")


def test_the_time_of_a_figure_is_told_as_its_runs_end(tmp_path):
    seen = [0.0]

    class Watching(Silent):
        def look(self, done, running):
            seen.append(json.loads((tmp_path / "figure.json").read_text())["seconds"])

    run_figure(_figure(), tmp_path, Scripted(DONE, DONE), seeds=2, scale="smoke", show=Watching())
    assert seen == sorted(set(seen))


def test_what_cannot_run_says_why(tmp_path):
    outcome = work(tmp_path / "run", Run(replace(SPEC_OF_ALL, env="Nothing-v0"), 0))
    assert outcome.kind == "refused"
    assert "Nothing" in outcome.message
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------------------------------- real processes


def test_a_worker_ends_with_who_started_it_from_its_first_moment_on(tmp_path):
    (job,) = _tasks(tmp_path, seeds=1)
    program = (
        f"import os, signal; from {__name__} import *; Local(1).start(_tasks(Path({str(tmp_path)!r}), 1)[0]);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    deadline = time.monotonic() + 5  # left alone it would go on for longer
    while left := [pid for pid in all_processes() if str(job.path) in words_of(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert not job.path.exists()


def test_a_killed_worker_costs_nothing_but_time(undisturbed, tmp_path):
    jobs, killer = _tasks(tmp_path), Killer(times=2)
    assert finish(jobs, Local(2), killer) == []
    assert [len(kills) - 1 for kills in killer.kills.values()] == [2, 2]
    assert [rows_without_clocks(job.path) for job in jobs] == undisturbed


def test_a_population_has_the_rows_of_its_members(undisturbed, tmp_path):
    run = Run(SPEC_OF_ALL, 0, members=2)
    job = Job("both", run, tmp_path / "runs" / run.id)
    job.path.parent.mkdir()
    assert finish([job], Local(1), Silent()) == []
    rows = rows_without_clocks(job.path)
    assert [[row for row in rows if row["seed"] == seed] for seed in run.seeds] == undisturbed
    result = json.loads((job.path / RESULT).read_text())
    assert result["lost"] == []
    assert result["return"] == pytest.approx(sum(rows[-1]["return"] for rows in undisturbed) / 2)


def finish_with_ray(out):
    """In a process of its own: Ray forks, which it must not where jax has threads already."""
    executor, killer = Ray(slots=2), Killer(times=1, victim=parent_of)
    strangers = [_join(executor, out, RAY_AUTH_TOKEN="0" * 64), _join(executor, out)]
    try:
        assert executor.slots == 2
        places = _listening(family(os.getpid()))
        assert places
        assert places <= {"127.0.0.1", "::ffff:127.0.0.1"}
        assert finish(_tasks(out), executor, killer) == []
        for stranger in strangers:
            _, complaint = stranger.communicate(timeout=60)
            assert complaint.splitlines()[-1].startswith("ConnectionError"), complaint
            assert "token" in complaint
    finally:
        for stranger in strangers:
            stranger.kill()
        executor.close()
    assert [len(kills) - 1 for kills in killer.kills.values()] == [1, 1]


def _join(executor, home, **token):
    """A process that asks to be let into the executor's cluster."""
    address = executor._ray.get_runtime_context().gcs_address
    program = f"from sbeed.experiments.executors import Ray; Ray({address!r})"
    env = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_TOKEN"}
    env |= {"HOME": str(home), **token}
    return subprocess.Popen([sys.executable, "-c", program], env=env, text=True, stderr=subprocess.PIPE)


def _listening(pids):
    """The addresses at which these processes wait for others."""
    sockets = set()
    for handle in itertools.chain.from_iterable(Path(f"/proc/{pid}/fd").glob("*") for pid in pids):
        with suppress(OSError):
            sockets.add(os.readlink(handle))
    found = set()
    for table, kind in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                words = bytes.fromhex(local.partition(":")[0])  # of four bytes, each the wrong way round
                parts = (words[i : i + 4][::-1] for i in range(0, len(words), 4))
                found.add(socket.inet_ntop(kind, b"".join(parts)))
    return found


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_ray_listens_to_nobody_else_and_gives_the_same_rows_though_its_workers_are_killed(undisturbed, tmp_path):
    program = f"from {__name__} import *; finish_with_ray(Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [rows_without_clocks(job.path) for job in _tasks(tmp_path)] == undisturbed
