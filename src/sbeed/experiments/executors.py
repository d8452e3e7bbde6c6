"""Executors of runs: processes of this machine, or tasks of a Ray cluster. Both call `worker`.

A run's numbers depend on its spec alone: wherever it runs it has one thread, and its files are the same.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sbeed.experiments.machine import cores
from sbeed.experiments.spec import Run, describe, read_run
from sbeed.experiments.worker import FAILED, STOPPED, Outcome

MEMORY = 2 * 2**30  # bytes that a run may take: a replay of a million transitions, jax and an environment


class Job(NamedTuple):
    """A run, the directory that it is to have and what to call it."""

    title: str
    run: Run
    path: Path


class Executor(Protocol):
    name: str

    @property
    def slots(self) -> int:
        """The number of runs that fit in at the same time."""

    def start(self, job: Job) -> None: ...

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        """The runs that have ended since the last call; waits up to `seconds` for one."""

    def stop(self, job: Job) -> None:
        """Stop an unfinished run and forget it."""

    def close(self) -> None:
        """Stop all runs; they can be continued later."""


def one_thread(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a process that computes on one core."""
    return {"JAX_PLATFORMS": environment.get("JAX_PLATFORMS", "cpu"), **_one_thread_each(environment)}


def on_any_device(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a population, which may share a GPU."""
    return {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **_one_thread_each(environment)}


def _one_thread_each(environment: Mapping[str, str]) -> dict[str, str]:
    flags = f"{environment.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"XLA_FLAGS": flags.strip(), **threads}


class _Process:
    """The worker of one run."""

    def __init__(self, job: Job):
        self.job = job
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process runs
        variables = one_thread if job.run.members == 1 else on_any_device
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sbeed.experiments.process", str(os.getpid()), str(job.path)],
            env={**os.environ, **variables(os.environ)},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        with suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(describe(job.run)).encode())
            self.process.stdin.close()

    def outcome(self) -> Outcome:
        """Wait for the process and return its outcome."""
        code = self.process.wait()
        with self._complaints as file:
            file.seek(0)
            last = file.read().decode(errors="replace").strip().rpartition("\n")[2]
        if code == 0:
            return Outcome("done")
        if code < 0:
            return Outcome("died", f"killed by signal {-code}")
        return Outcome({FAILED: "failed", STOPPED: "died"}.get(code, "refused"), last)


class Local:
    """Run each job in a process of its own, one for each core; fewer of populations, which need several cores."""

    name = "local"

    def __init__(self, slots: int | None = None, members: int = 1):
        """members: agents in each run"""
        self.slots = slots or max(1, cores() // members)
        self._running: dict[Path, _Process] = {}

    def start(self, job: Job) -> None:
        self._running[job.path] = _Process(job)

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        with suppress(subprocess.TimeoutExpired):
            for one in list(self._running.values())[:1]:
                one.process.wait(seconds)
        over = [one for one in self._running.values() if one.process.poll() is not None]
        return [(one.job, self._end(one)) for one in over]

    def _end(self, one: _Process) -> Outcome:
        del self._running[one.job.path]
        return one.outcome()

    def stop(self, job: Job) -> None:
        self._running[job.path].process.kill()
        self._end(self._running[job.path])

    def close(self) -> None:
        there = list(self._running.values())
        for one in there:
            one.process.terminate()  # they leave a checkpoint
        for one in there:
            self._end(one)


class Ray:
    """Run each job as a task on the machines of a Ray cluster, which must all see the same directory.

    Without an address it starts a Ray of this machine alone, which accepts no connections from outside. Clients
    without the cluster's token are refused. A run has a process of its own here too: Ray's and XLA's threads do not
    end well together.
    """

    name = "ray"

    def __init__(self, address: str | None = None, slots: int | None = None):
        """slots: maximal number of simultaneous runs. If ray was imported before, its settings cannot be changed."""
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if address is None:
            os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
            # By this name Ray calls what keeps it to the loopback device, on Linux too. Read when it is imported.
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        import ray

        self._ray, self._most = ray, slots
        options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "critical"}
        if address is None:
            # "local": a cluster that happens to run here is not joined.
            options |= {"address": "local", "num_cpus": slots or cores(), "include_dashboard": False}
        try:
            ray.init(**options)
        except ray.exceptions.RayError as error:  # no token, or not the cluster's
            raise ConnectionError(" ".join(str(error).split())) from None
        # No retries by Ray: the runner restarts dead workers, like any others.
        self._work = ray.remote(num_cpus=1, memory=MEMORY, max_retries=0)(_work)
        self._running: dict[Any, Job] = {}
        if not self.slots:  # Ray would wait for such a machine, and say nothing
            self.close()
            raise ConnectionError(
                f"no machine of the cluster has a core and {MEMORY / 2**30:g} GiB of memory for a run"
            )

    @property
    def slots(self) -> int:
        there = sum(runs_that_fit(node["Resources"]) for node in self._ray.nodes() if node["Alive"])
        return min(there, self._most or there)

    def start(self, job: Job) -> None:
        self._running[self._work.remote(str(job.path.resolve()), describe(job.run))] = job

    def ended(self, seconds: float) -> list[tuple[Job, Outcome]]:
        if not self._running:  # a cluster without cores: some may come
            time.sleep(seconds)
            return []
        over, _ = self._ray.wait(list(self._running), timeout=seconds)
        return [(self._running.pop(found), self._outcome(found)) for found in over]

    def _outcome(self, found: Any) -> Outcome:
        try:
            return Outcome(*self._ray.get(found))
        except self._ray.exceptions.RayTaskError as error:
            return Outcome("refused", str(error).strip().rpartition("\n")[2])
        except self._ray.exceptions.RayError as error:
            return Outcome("died", str(error).strip().partition("\n")[0])

    def stop(self, job: Job) -> None:
        (found,) = (found for found, running in self._running.items() if running.path == job.path)
        del self._running[found]
        self._ray.cancel(found, force=True)

    def close(self) -> None:
        for found in self._running:
            self._ray.cancel(found, force=True)
        self._running.clear()
        self._ray.shutdown()


def runs_that_fit(resources: Mapping[str, float]) -> int:
    """The number of runs that fit into a machine of a Ray cluster."""
    return int(min(resources.get("CPU", 0), resources.get("memory", 0) // MEMORY))


def _work(path: str, found: dict[str, Any]) -> tuple[str, str]:
    """The task that Ray runs."""
    if not Path(path).parent.is_dir():
        return Outcome("refused", f"'{Path(path).parent}' is not on every machine: choose a directory that all share")
    return _Process(Job("", read_run(found), Path(path))).outcome()
