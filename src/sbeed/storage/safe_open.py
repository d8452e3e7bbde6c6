"""Files that are files: a link could lead anywhere, a pipe would never end."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path


def read_safely(path: Path, most: int) -> bytes:
    """A plain file of at most so many bytes."""
    with open_safely(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"it has {size} bytes, more than the {most} that it could need")
        return file.read(size)  # and not `most`, for which Python would make room


@contextmanager
def open_safely(path: Path) -> Iterator[BufferedReader]:
    """A ValueError or an OSError for anything else."""
    # Not to wait for a pipe's other end before it is known to be one.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ValueError("it is not a plain file")
        yield file
