"""Helpers shared by the commands: what they print, one-line errors, directories, a counting progress bar."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from sbeed.reporting.markup import printable

WRONG_INPUT, ENVIRONMENT_FAULT, DIVERGED, OUR_FAULT = 2, 3, 4, 70  # exit codes


def say(text: object = "", *, aside: bool = False) -> None:
    """Print at once, on stdout or `aside`. Commands print by this and `complain` alone, and tables by `printable`."""
    print(printable(str(text)), file=sys.stderr if aside else sys.stdout, flush=True)


def complain(text: object) -> None:
    """Print one line on stderr."""
    print("sbeed: " + printable(" ".join(str(text).split())), file=sys.stderr)


class UserError(Exception):
    """Ends a command, for wrong input or another failure; the message is the one line that the user reads."""

    def __init__(self, message: str, code: int = WRONG_INPUT):
        super().__init__(message)
        self.code = code


def require(field: str, condition: bool, complaint: str) -> None:
    if not condition:
        raise UserError(f"{field}: {complaint}")


def make_directory(field: str, path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        writable = os.access(path, os.W_OK)
    except OSError as error:
        raise UserError(f"{field}: cannot create directory '{path}' ({error.strerror})") from None
    require(field, writable, f"directory '{path}' is not writable")


@contextlib.contextmanager
def counting(total: int, unit: str) -> Iterator[Callable[[str], None]]:
    """Show a progress bar on stderr; yields a function to call with the name of each finished item."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)


@contextlib.contextmanager
def complaints(*kinds: type[Exception], code: int = WRONG_INPUT) -> Iterator[None]:
    """Turn these exceptions into a `UserError` whose message is theirs and their notes, on one line."""
    try:
        yield
    except kinds as error:
        raise UserError(one_line(error), code) from error


def one_line(error: BaseException) -> str:
    """The message of an exception and its notes, but for jax's, which is about tracebacks."""
    notes = [note for note in getattr(error, "__notes__", ()) if "JAX_TRACEBACK_FILTERING" not in note]
    return "; ".join(" ".join(line.split()) for line in (str(error) or type(error).__name__, *notes))
