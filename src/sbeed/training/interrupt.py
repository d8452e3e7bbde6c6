"""Handle Ctrl-C and SIGTERM during a run."""

import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from sbeed.collect.waiting import waits

PATIENCE = 30.0  # seconds without an answer of the environments, after which a line says so and no signal is held back
GRACE = 5.0  # seconds after the second signal, after which the process ends even in the middle of a compiled program


class Terminated(SystemExit):
    """SIGTERM arrived and the run has ended in order; the exit code is the one that shells use for it."""

    def __init__(self, kept: str):
        super().__init__(128 + signal.SIGTERM)
        self.kept = kept


@contextmanager
def interruptible(kept: str, again: str = "") -> Iterator[Callable[[], bool]]:
    """Hold Ctrl-C and SIGTERM back until the block's end; yields a function that tells whether one came.

    A second one is not held back, nor is the first while the environments do not answer. kept: the message of the
    KeyboardInterrupt, or the Terminated, raised at the end. again: how to go on later, said when the first one comes.
    Nothing changes if the signal has another handler already,
    or outside of the main thread.
    """
    came: list[int] = []

    def hold(number: int, frame: object) -> None:
        if came or waits()[1] > PATIENCE:
            raise _exception(number, "nothing more was saved")
        came.append(number)
        name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
        how = f"; {again}" if again else ""
        print(f"stopping; {name} again stops at once, without saving{how}", file=sys.stderr)

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    in_main = threading.current_thread() is threading.main_thread()
    ours = {number: handler for number, handler in usual.items() if in_main and signal.getsignal(number) is handler}
    for number in ours:
        signal.signal(number, hold)
    try:
        with _watched() if ours else nullcontext():
            yield lambda: bool(came)
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
    if came:
        raise _exception(came[0], kept)


@contextmanager
def terminable(kept: str) -> Iterator[None]:
    """Let SIGTERM raise a Terminated inside the block, whatever else handles it, such as Ray with a dump of its own."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one does not break off what is being put in order
        raise Terminated(kept)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def _watched() -> Iterator[None]:
    """Let a thread watch over the block.

    It says when environments do not answer, hands a signal that is held back then to the main thread again, and ends
    the process `GRACE` seconds after a second one: Python calls a handler only between two of its own instructions, of
    which the main thread has none while a compiled program runs.
    """
    hears, tells = os.pipe()
    os.set_blocking(tells, False)
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    watch = threading.Thread(target=_watch, args=(hears,), daemon=True)
    watch.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(tells)  # which the watch hears
        watch.join()
        os.close(hears)


def _watch(hears: int) -> None:
    came, told, end = b"", False, math.inf
    while True:
        if select.select([hears], [], [], 1.0)[0]:
            news = os.read(hears, 64)
            if not news:  # the block has ended
                return
            came += bytes(one for one in news if one in (signal.SIGINT, signal.SIGTERM))
        what, seconds = waits()
        if seconds <= PATIENCE:
            told = False
        elif not told:
            told = True
            print(f"no answer from {what} for {seconds:.0f} s; Ctrl-C stops waiting", file=sys.stderr)
            if came:
                signal.pthread_kill(threading.main_thread().ident or 0, came[0])
        if len(came) > 1:
            end = min(end, time.monotonic() + GRACE)
        if time.monotonic() > end:
            print("stopped in the middle of a compiled program", file=sys.stderr, flush=True)
            os._exit(128 + came[-1])


def _exception(number: int, kept: str) -> BaseException:
    return KeyboardInterrupt(kept) if number == signal.SIGINT else Terminated(kept)
