"""One owner for a run's directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = "lock"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """The directory is this process's until the block ends; a BlockingIOError at once if it is another's.

    The kernel holds the lock and lets go of it when its owner ends, by whatever death. The file stays: were it removed,
    two could each lock a file of that name.
    """
    path = Path(run) / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read(20).decode(errors="replace").strip() or "unknown"
            raise BlockingIOError(f"'{run}' is in use by another process ({owner})") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
