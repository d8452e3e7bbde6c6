"""Handle Ctrl-C and SIGTERM during a run."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Terminated(SystemExit):
    """SIGTERM arrived and the run has ended in order; the exit code is the one that shells use for it."""

    def __init__(self, kept: str):
        super().__init__(128 + signal.SIGTERM)
        self.kept = kept


@contextmanager
def interruptible(kept: str) -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C and SIGTERM back until the block's end; yields a function that tells whether one came.

    A second one is not held back. kept: the message of the KeyboardInterrupt, or the Terminated, raised at the end.
    Nothing changes if the signal has another handler already, or outside of the main thread.
    """
    came: list[int] = []

    def hold(number: int, frame: object) -> None:
        if came:
            raise _exception(number, "nothing more was saved")
        came.append(number)
        again = "Ctrl-C again" if number == signal.SIGINT else "SIGTERM again"
        print(f"stopping; {again} stops at once, without saving", file=sys.stderr)

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    in_main = threading.current_thread() is threading.main_thread()
    ours = {number: handler for number, handler in usual.items() if in_main and signal.getsignal(number) is handler}
    for number in ours:
        signal.signal(number, hold)
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
    if came:
        raise _exception(came[0], kept)


def _exception(number: int, kept: str) -> BaseException:
    return KeyboardInterrupt(kept) if number == signal.SIGINT else Terminated(kept)
