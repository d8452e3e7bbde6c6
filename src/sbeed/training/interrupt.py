"""Ctrl-C in the middle of a run."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interruptible(kept: str) -> Iterator[Callable[[], bool]]:
    """Ctrl-C is held back until the block's end: yields a function that says whether it came. The second is not.

    kept: what the KeyboardInterrupt says that is raised in the end. Where Ctrl-C means something else already, or this
    is not the main thread, nothing changes.
    """
    came: list[int] = []

    def hold(number: int, frame: object) -> None:
        if came:
            raise KeyboardInterrupt
        came.append(number)
        print("stopping; Ctrl-C again stops at once, and nothing is saved", file=sys.stderr)

    usual = signal.default_int_handler
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is usual
    if ours:
        signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: bool(came)
    finally:
        if ours:
            signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt(kept)
