"""Write files whole: under a random temporary name, synced to the disk, then renamed. All files are written this way.

An existing plain file is replaced. Links, pipes and devices are refused, and nothing is written.
"""

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_LEFT = re.compile(r"(?P<stem>\..+)\.(?:new|old)-(?P<pid>\d{1,9})(?P<token>-[0-9a-f]{16})?(?P<suffix>\.[^.]*)?")


def write_file(path: Path, content: bytes) -> None:
    """Write a file; it is on the disk when this returns, and on failure the old file stays."""
    check_replaceable(path)
    new = beside(path)
    try:
        with new.open("xb") as file:  # fails if anything has that name, a link too
            file.write(content)
            _put(file, new, path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file for others to write; it takes the name `path` when the block ends."""
    check_replaceable(path)
    new = beside(path)
    new.open("xb").close()
    try:
        yield new
        with new.open("r+b") as file:
            _put(file, new, path)
    finally:
        new.unlink(missing_ok=True)


def _put(file: BinaryIO, new: Path, path: Path) -> None:
    file.flush()
    os.fsync(file.fileno())
    new.rename(path)
    sync(path.parent)


@contextmanager
def open_to_append(path: Path) -> Iterator[BinaryIO]:
    """Open a plain file to append to it; create it if it is missing."""
    check_replaceable(path)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    with os.fdopen(handle, "ab") as file:
        _check_plain(path, os.fstat(handle).st_mode)
        yield file


def check_replaceable(path: Path) -> None:
    """Raise FileExistsError if the path is anything but a plain file or free."""
    with suppress(FileNotFoundError):
        _check_plain(path, path.lstat().st_mode)


def _check_plain(path: Path, mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise FileExistsError(f"'{path}' is a link, which may lead anywhere: nothing is written there")
    if not stat.S_ISREG(mode):
        raise FileExistsError(f"'{path}' is not a plain file: nothing is written there")


def sync(directory: Path) -> None:
    """Sync a directory: only then are renames and new names in it on the disk."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ------------------------------------------------------------------------------------------------- temporary names


def beside(path: Path, word: str = "new") -> Path:
    """A temporary name in the same directory, with the same suffix and this process's id.   word: new or old"""
    token = f"{word}-{os.getpid()}-{secrets.token_hex(8)}"
    return path.with_name(f".{path.stem[-150:]}.{token}{path.suffix}")


def is_leftover(name: str) -> bool:
    """True for a name that `beside` gives."""
    return _LEFT.fullmatch(name) is not None


def sweep(directory: Path) -> None:
    """Remove half-written files of killed processes. Only the owner of the directory may call this."""
    for path in directory.iterdir():
        if is_leftover(path.name):
            remove(path)


def sweep_beside(path: Path) -> None:
    """Remove the leftovers beside that file or directory, which has no owner, of processes that have ended."""
    for found in path.parent.glob(".*"):
        match = _LEFT.fullmatch(found.name)
        if match and (match["stem"], match["suffix"] or "") == (f".{path.stem[-150:]}", path.suffix):
            pid = int(match["pid"])
            if not _is_alive(pid) or (pid == os.getpid() and match["token"] is None):
                remove(found)


def remove(path: Path) -> None:
    """Remove a file, or a directory with its content; of a link only the link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
