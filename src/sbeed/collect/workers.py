"""Stepping environments on the host, in this process or in workers.

Each member of a population owns its environments and a random stream, both seeded by the member alone: what it sees
does not depend on who its neighbours are or on how many workers there are.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from sbeed.collect.actor import Actor, Drawing, Mark, Scores
from sbeed.collect.vector_actor import VectorActor
from sbeed.models.host import HostPolicy

MakeActor = Callable[[], Actor | VectorActor]


class Collector:
    """The actors of all members: in this process, or spread over worker processes."""

    def __init__(self, makers: Sequence[MakeActor], workers: int = 0):
        """makers: one per member; for worker processes they must pickle."""
        shares = np.array_split(np.arange(len(makers)), min(workers, len(makers)) or 1)
        crew = _Worker if workers else _Crew
        self.crews = [crew([makers[i] for i in share]) for share in shares]

    def begin(self, policies: Sequence[Drawing], steps: int) -> None:
        """Let everybody collect; worker processes start at once, this one when `answers` are asked for."""
        self._ask("collect", [(policy, steps) for policy in policies])

    def evaluate(self, policies: Sequence[HostPolicy], episodes: int) -> list[Scores]:
        self._ask("evaluate", [(policy, episodes) for policy in policies])
        return self.answers()

    def marks(self) -> list[Mark]:
        """Where everybody stands, between two chunks."""
        self._ask("mark", [() for crew in self.crews for _ in range(crew.size)])
        return self.answers()

    def resume(self, marks: Sequence[Mark], restart: bool = False) -> None:
        """Let everybody go on from where another collector's actor stood.   restart: in new episodes"""
        self._ask("restart" if restart else "resume", [(mark,) for mark in marks])
        self.answers()

    def _ask(self, method: str, arguments: list[tuple]) -> None:
        rest = iter(arguments)
        for crew in self.crews:
            crew.ask(method, [next(rest) for _ in range(crew.size)])

    def answers(self) -> list[Any]:
        """What everybody answers to what was last asked: after `begin`, a Chunk for each member."""
        heard: list[Any] = []
        for answers in [crew.answers() for crew in self.crews]:  # all before any complaint: none stays in a pipe
            if isinstance(answers, Exception):
                raise answers
            heard += answers
        return heard

    def close(self) -> None:
        for crew in self.crews:
            crew.close()


class _Crew:
    """Some members' actors, in this process."""

    def __init__(self, makers: Sequence[MakeActor]):
        self.size = len(makers)
        self.actors = [make() for make in makers]

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        self._method, self._arguments = method, arguments

    def answers(self) -> list[Any]:
        # Not before it is asked for: until then the caller may set the device to work.
        return [getattr(actor, self._method)(*some) for actor, some in zip(self.actors, self._arguments)]

    def close(self) -> None:
        for actor in self.actors:
            actor.close()


class _Worker:
    """Some members' actors, in a process of their own."""

    def __init__(self, makers: Sequence[MakeActor]):
        # Spawned, for a forked process that has jax's threads deadlocks.
        context = multiprocessing.get_context("spawn")
        self.size = len(makers)
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, makers), daemon=True)
        with _environment(OMP_NUM_THREADS="1", JAX_PLATFORMS="cpu"):  # read by numpy and jax when the worker loads them
            self.process.start()
        theirs.close()  # ours is a copy: while it is open, a dead worker looks like a slow one

    def ask(self, method: str, arguments: Sequence[tuple]) -> None:
        with suppress(OSError):  # of a worker that died: there will be no answer
            self.pipe.send((method, arguments))

    def answers(self) -> list[Any] | Exception:
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            return RuntimeError(f"a worker process died (exit code {self.process.exitcode})")

    def close(self) -> None:
        self.pipe.close()  # which the worker notices, unless it is in the middle of something
        self.process.join(timeout=2)
        self.process.kill()
        self.process.join()


def _work(pipe: Connection, makers: Sequence[MakeActor]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # of which a whole group is told: they are the parent's to answer
        signal.signal(number, signal.SIG_IGN)
    crew: _Crew | None = None
    answers: Any
    with suppress(EOFError, OSError):  # the parent has closed its end: we are done
        while True:
            question = pipe.recv()
            try:
                crew = crew or _Crew(makers)
                crew.ask(*question)
                answers = crew.answers()
            except Exception as error:
                answers = error
            pipe.send(answers)
    if crew is not None:
        crew.close()


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Environment variables for the processes started inside."""
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
