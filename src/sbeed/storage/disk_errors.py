"""Disks that take nothing more."""

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
    """What the disk refuses to take is an OSError that says how many bytes it needs, if that is known, and are free.

    after: what else there is to say.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in REFUSALS:  # nor has one that was told here already
            raise
        free = shutil.disk_usage(_existing(place)).free
        told = f"{free:,} bytes are free" if needed is None else f"it takes {needed:,} bytes, {free:,} are free"
        raise OSError(f"no {what} in '{place}' ({error.strerror}): {told}{after}") from error


def _existing(place: Path) -> Path:
    """It, or the nearest directory above that is there."""
    return next(path for path in (place, *place.resolve().parents) if path.exists())
