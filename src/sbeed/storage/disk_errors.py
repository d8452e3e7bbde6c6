"""Explain the errors of a disk that is full or not writable."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REFUSALS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG),  # full, by whatever measure
    *(errno.EROFS, errno.EACCES, errno.EPERM),  # not to be written to
    errno.EIO,
)


@contextmanager
def explained_disk_errors(what: str, place: Path, needed: int | None = None, after: str = "") -> Iterator[None]:
    """Turn a refusal of the disk into an OSError with the bytes that are free and, if known, needed.

    what: the file or thing that is written. after: text to append to the message.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:  # an error that was explained here has none
            raise
        free = shutil.disk_usage(_existing(place)).free
        told = f"{free:,} bytes are free" if needed is None else f"it takes {needed:,} bytes, {free:,} are free"
        raise OSError(f"no {what} in '{place}' ({error.strerror}): {told}{after}") from error


def _existing(place: Path) -> Path:
    """The path, or its nearest parent directory that exists."""
    return next(path for path in (place, *place.resolve().parents) if path.exists())
