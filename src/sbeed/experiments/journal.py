"""The journal of a search, lines of JSON that Optuna writes; a torn last line is cut off."""

import json
import os
from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock


def open_journal(path: Path) -> JournalStorage:
    """Open the journal; damage other than a torn last line is a one-line ValueError."""
    if path.exists():
        _cut_torn_line(path)
    backend = JournalFileBackend(str(path))
    try:
        return JournalStorage(backend)
    except Exception as error:  # lines of JSON, but not Optuna's: it may stumble over them in any way
        raise ValueError(f"'{path}' is damaged: it is not what Optuna wrote ({error!r})") from None


def _cut_torn_line(path: Path) -> None:
    """Cut off a last line without its end, which a full disk or a power cut leaves."""
    lock = JournalFileSymlinkLock(str(path))  # Optuna's lock: its dashboard may write there too
    lock.acquire()
    try:
        with path.open("rb") as file:
            lines = file.readlines()
        broken = [number for number, line in enumerate(lines, 1) if not _is_whole(line)]
        if not broken:
            return
        if broken[0] < len(lines):
            raise ValueError(f"'{path}' is damaged: its line {broken[0]} of {len(lines)} is not JSON")
        with path.open("ab") as file:
            file.truncate(sum(len(line) for line in lines[:-1]))
            os.fsync(file.fileno())
    finally:
        lock.release()


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return line.endswith(b"\n")
