"""Progress of a figure's runs on stderr: a bar for all of them, and a line for each running one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sbeed.experiments.executors import Job


class Bars:
    def __init__(self, bars: Progress, name: str):
        self._bars, self._all = bars, bars.add_task(name)
        self._lines: dict[Path, TaskID] = {}

    def begin(self, steps: int) -> None:
        self._bars.update(self._all, total=steps)

    def look(self, done: int, running: Mapping[Path, tuple[Job, int]]) -> None:
        self._bars.update(self._all, completed=done)
        for path in self._lines.keys() - running.keys():
            self._bars.remove_task(self._lines.pop(path))
        for path, (job, step) in running.items():
            if path not in self._lines:
                self._lines[path] = self._bars.add_task(job.title, total=job.run.spec.steps)
            self._bars.update(self._lines[path], completed=step)

    def say(self, line: str) -> None:
        self._bars.console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def bars(name: str) -> Iterator[Bars]:
    """Show the bars; without a terminal, write only messages."""
    columns = (
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,}/{task.total:,} steps"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bars(progress, name)
