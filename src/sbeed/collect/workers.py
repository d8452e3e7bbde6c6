"""Step the environments of all members on the host, in this process or in worker processes.

Each member owns its environments and a random stream, both seeded by the member alone. So its data depend neither on
the other members nor on the number of workers.
"""

import abc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from sbeed.collect.actor import Actor, Drawing, Mark, Scores
from sbeed.collect.vector_actor import VectorActor
from sbeed.models.host import HostPolicy

MakeActor = Callable[[], Actor | VectorActor]


class Collector(abc.ABC):
    """The actors of all members; `collector` makes one."""

    def __init__(self, members: int):
        self.members = members

    def begin(self, policies: Sequence[Drawing], steps: int) -> None:
        """Ask all actors to collect. Worker processes start at once, this process when `answers` is called."""
        self.ask("collect", [(policy, steps) for policy in policies])

    def evaluate(self, policies: Sequence[HostPolicy], episodes: int) -> list[Scores]:
        self.ask("evaluate", [(policy, episodes) for policy in policies])
        return self.answers()

    def marks(self) -> list[Mark]:
        """The states of all actors, between two chunks."""
        self.ask("mark", [()] * self.members)
        return self.answers()

    def resume(self, marks: Sequence[Mark], restart: bool = False) -> None:
        """Continue from the states of another collector's actors.   restart: begin new episodes"""
        self.ask("restart" if restart else "resume", [(mark,) for mark in marks])
        self.answers()

    @abc.abstractmethod
    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        """Ask every actor to call its method, each with its own arguments."""

    @abc.abstractmethod
    def answers(self) -> list[Any]:
        """Wait for the answers to the last request: after `begin`, a Chunk for each member."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the environments that were made here."""


def collector(makers: Sequence[MakeActor], workers: int = 0) -> Collector:
    """Spread the actors over worker processes, if there are any.

    makers: one for each member; they must pickle if there are worker processes
    """
    return InWorkers(makers, workers) if workers else InProcess(makers)


class InProcess(Collector):
    """Actors in this process."""

    def __init__(self, makers: Sequence[MakeActor]):
        super().__init__(len(makers))
        self.actors = [make() for make in makers]

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        self._method, self._arguments = method, arguments

    def answers(self) -> list[Any]:
        # The work is done here, not in `ask`: in between the caller may start the device.
        return [getattr(actor, self._method)(*some) for actor, some in zip(self.actors, self._arguments)]

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


class InWorkers(Collector):
    """Actors in worker processes, each of which has those of several members."""

    def __init__(self, makers: Sequence[MakeActor], workers: int):
        super().__init__(len(makers))
        shares = np.array_split(np.arange(len(makers)), min(workers, len(makers)))
        self.workers = [_Worker([makers[i] for i in share]) for share in shares]

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        rest = iter(arguments)
        for worker in self.workers:
            worker.ask(method, list(islice(rest, worker.size)))

    def answers(self) -> list[Any]:
        heard: list[Any] = []
        # All are read before one raises: none may stay in a pipe.
        for answers in [worker.answers() for worker in self.workers]:
            if isinstance(answers, Exception):
                raise answers
            heard += answers
        return heard

    def close(self) -> None:
        for worker in self.workers:
            worker.close()


class _Worker:
    """The process of some members' actors."""

    def __init__(self, makers: Sequence[MakeActor]):
        # Spawned: a forked process with the threads of jax deadlocks.
        context = multiprocessing.get_context("spawn")
        self.size = len(makers)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, makers), daemon=True)
        with _environment(OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu"):  # read by numpy and jax when the worker loads them
            self.process.start()
        theirs.close()  # while this copy is open, a dead worker looks like a slow one

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        with suppress(OSError):  # the worker died; `answers` says so
            self.pipe.send((method, arguments))

    def answers(self) -> list[Any] | Exception:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return RuntimeError(f"a worker process died (exit code {self.process.exitcode})")

    def close(self) -> None:
        self.pipe.close()  # an idle worker notices and ends
        self.process.join(timeout=2)
        self.process.kill()
        self.process.join()


def _work(pipe: Connection, makers: Sequence[MakeActor]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole process group; the parent handles them
        signal.signal(number, signal.SIG_IGN)
    actors: InProcess | None = None
    answers: Any
    with suppress(EOFError, OSError):  # raised when the parent closes its end
        while True:
            question = pipe.recv()
            try:
                actors = actors or InProcess(makers)
                actors.ask(*question)
                answers = actors.answers()
            except Exception as error:
                answers = error
            pipe.send(answers)
    if actors is not None:
        actors.close()


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for processes that are started in this block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
