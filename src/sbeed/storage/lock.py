"""One owner for a run's directory."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sbeed.storage.safe_write import check_replaceable

LOCK = "lock"


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """The directory is this process's until the block ends; a BlockingIOError at once if it is another's.

    The kernel holds the lock and lets go of it when its owner ends, by whatever death. The file stays; only with its
    directory does it go.
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
        # Its owner may have removed the directory after we opened the file: of what bears the name now we have nothing.
        if not path.exists() or not os.path.samestat(path.stat(), os.fstat(handle)):
            raise BlockingIOError(f"'{run}' was just now removed by another process")
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        file.flush()
        yield
