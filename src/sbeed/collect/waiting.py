"""What a run is waiting for, where only other people's code can end it: a watch asks (`training.interrupt`)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_under_way: list[tuple[str, float]] = []  # the innermost last


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is waited for while the block lasts. Only the process's main thread waits."""
    _under_way.append((what, time.monotonic()))
    try:
        yield
    finally:
        _under_way.pop()
        if _under_way:  # an answer has come: what it is a part of is waited for anew
            _under_way[-1] = (_under_way[-1][0], time.monotonic())


def waits() -> tuple[str, float]:
    """What is waited for, and the seconds since; 0 if nothing is."""
    what, since = (_under_way or [("", time.monotonic())])[-1]
    return what, time.monotonic() - since
