"""Lock a run's directory, so that it has one owner."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sbeed.storage.safe_write import check_replaceable

LOCK = "lock"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Own the directory until the block ends; raise BlockingIOError at once if another process owns it.

    The kernel holds the lock and releases it when the owner ends, kill -9 included. The lock file stays.
    """
    path = Path(run) / LOCK
    check_replaceable(path)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = file.read(20).decode(errors="replace").strip() or "unknown"
            raise BlockingIOError(f"'{run}' is in use by another process ({owner})") from None
        # The owner may have removed the directory after the file was opened: then another file has this name now.
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(handle)):
            raise BlockingIOError(f"'{run}' was just now removed by another process")
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
