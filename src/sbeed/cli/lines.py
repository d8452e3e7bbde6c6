"""What a command that learns prints while it runs: its plan, and a line for each evaluation."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from sbeed.cli.console import say

if TYPE_CHECKING:
    from sbeed.storage.run_dir import Row
    from sbeed.training.run import RunSpec
    from sbeed.training.trainer import Trainer

PACE_AFTER = 20  # iterations with updates, after which the pace is known: the first ones compile


class Hearing(NamedTuple):
    """The listeners of a run."""

    progress: Callable[["Trainer"], None]
    rows: Callable[[list["Row"]], None]


@contextmanager
def told(spec: "RunSpec", trainer: "Trainer", *, quiet: bool, verbose: bool) -> Iterator[Hearing]:
    """Tell what a run is and how it goes: by a bar on a terminal, by lines on stdout elsewhere.

    quiet: nothing. verbose: lines on a terminal too, with all numbers of the updates.
    """
    from sbeed.training.progress_bar import progress_bar

    if quiet:
        yield Hearing(lambda trainer: None, lambda rows: None)
        return
    on_terminal = sys.stderr.isatty()
    if on_terminal:
        say(plan_line(spec, trainer), aside=True)
    lines = _Lines(spec, trainer, verbose)
    with progress_bar(trainer, spec.steps - trainer.step) as show:
        if on_terminal and not verbose:
            yield Hearing(lambda trainer: show(), lambda rows: None)
        else:

            def progress(_: "Trainer") -> None:
                show()
                lines.progress()

            yield Hearing(progress, lines.rows)


def plan_line(spec: "RunSpec", trainer: "Trainer") -> str:
    """The task, the agent, how long it learns."""
    first, members = trainer.seeds[0], len(trainer.seeds)
    seeds = f"seed {first}" if members == 1 else f"seeds {first} to {trainer.seeds[-1]}"
    unit, task = ("steps", spec.env) if trainer.data is None else ("updates", f"dataset {trainer.spec.name}")
    return f"{task}: {spec.agent}, preset {spec.preset}, {seeds}, {spec.steps - trainer.step:,} {unit}"


def row_line(row: "Row", goal: int, members: int, numbers: Sequence[str] = ()) -> str:
    """The line of an evaluation.   numbers: names of the row to show as well"""
    played = f"return {row['return']:.1f} +- {row['return_std']:.1f}" if "return" in row else "not evaluated"
    seed = f", seed {row['seed']}" if members > 1 else ""
    more = "".join(f", {name} {row[name]:.4g}" for name in numbers if row.get(name) is not None)
    return f"step {row['step']:,} of {goal:,}: {played}{seed}, {_duration(row['seconds'])}{more}"


def resumed_lines(goal: int, members: int, quiet: bool) -> Callable[[list["Row"]], None]:
    """What a resumed run tells of its rows: on a terminal its bar does."""

    def tell(rows: list["Row"]) -> None:
        for row in rows:
            if not (row["final"] or quiet or sys.stderr.isatty()):
                say(row_line(row, goal, members))

    return tell


class _Lines:
    """Lines on stdout. The plan comes with the time that it will take, as soon as the pace is known."""

    def __init__(self, spec: "RunSpec", trainer: "Trainer", verbose: bool):
        self.plan, self.goal, self.verbose = plan_line(spec, trainer), spec.steps, verbose
        self.trainer, self.unit = trainer, "steps" if trainer.data is None else "updates"
        self.planned = False
        self.learned = 0  # iterations with updates
        self.since = time.perf_counter(), trainer.step  # of the pace

    def progress(self) -> None:
        if self.trainer.metrics and not self.planned:
            self.learned += 1
            if self.learned == 1:
                self.since = time.perf_counter(), self.trainer.step
            elif self.learned > PACE_AFTER:
                self.say_plan()

    def say_plan(self) -> None:
        """Say it once."""
        if not self.planned:
            pace = self.pace()
            left = self.goal - self.trainer.step
            more = f", about {_duration(left / pace)} at {pace:,.0f} {self.unit}/s" if pace else ""
            say(self.plan + more)
            self.planned = True

    def pace(self) -> float:
        began, step = self.since
        return (self.trainer.step - step) / (time.perf_counter() - began)

    def rows(self, rows: list["Row"]) -> None:
        for row in rows:
            if row["final"]:  # told at the end
                continue
            self.say_plan()
            numbers = list(self.trainer.metrics) if self.verbose else []
            say(row_line(row, self.goal, len(self.trainer.seeds), numbers))


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
