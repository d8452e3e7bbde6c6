"""The progress bar of a training run, on stderr."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from sbeed.training.trainer import Trainer


@contextmanager
def progress_bar(trainer: "Trainer", steps: int) -> Iterator[Callable[[], None]]:
    """Show a bar for the next `steps` steps; yields a function to call after every iteration."""
    unit = "steps" if trainer.data is None else "updates"
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,}/{task.total:,} " + unit),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    first, began, console = trainer.step, time.perf_counter(), Console(stderr=True)
    hidden = not (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task("starting", total=steps)

        def show() -> None:
            done = trainer.step - first
            rate = done / (time.perf_counter() - began)
            bar.update(task, completed=done, description=f"{rate:,.0f} {unit}/s  {_recent(trainer)}")

        yield show


def _recent(trainer: "Trainer") -> str:
    """The mean training return of every member's last episodes."""
    means = [sum(some) / len(some) for some in trainer.recent if some]
    return f"return {sum(means) / len(means):,.1f}" if means else "no episode over yet"
