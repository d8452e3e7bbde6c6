"""One attempt at hurting a run."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Trial(NamedTuple):
    what: str  # was done
    seed: int  # that does it again
    seconds: float
    why: str = ""  # it did not hold; empty if it did


class Broken(AssertionError):  # noqa: N818  reads as what it says
    """What must hold does not."""


def require(holds: bool, complaint: object) -> None:
    if not holds:
        raise Broken(str(complaint))


def attempt(what: str, seed: int, act: Callable[[], float | None]) -> Trial:
    """act: what raises if something does not hold. The seconds that count are its own, if it gives them."""
    begin = time.perf_counter()
    try:
        own = act()
    except Exception as error:
        kind = "" if isinstance(error, Broken) else f"{type(error).__name__}: "
        return Trial(what, seed, time.perf_counter() - begin, " ".join(f"{kind}{error}".split()) or kind)
    return Trial(what, seed, time.perf_counter() - begin if own is None else own)


class Clock:
    """Seconds of what is done inside of `running`."""

    seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin
