"""Open plain files only: a link could lead anywhere, and reading a pipe might never end."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path


def read_safely(path: Path, most: int) -> bytes:
    """Read a plain file; raise ValueError if it has more than `most` bytes."""
    with open_safely(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"it has {size} bytes, more than the {most} that it could need")
        return file.read(size)  # not `most`: Python would allocate that many bytes


@contextmanager
def open_safely(path: Path) -> Iterator[BufferedReader]:
    """Open a plain file; raise ValueError or OSError for anything else."""
    # Nonblocking: opening a pipe would wait for its other end.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a plain file")
        yield file
