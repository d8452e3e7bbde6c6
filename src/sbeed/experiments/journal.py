"""The journal of a search, lines of JSON that Optuna writes; a torn last line is cut off.

It is read and checked before anything is written: as a plain file of a size that a search could reach, and by Optuna,
from memory. Optuna itself would follow a link, wait for a pipe and write to a journal that it then cannot read.
"""

import json
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend

from sbeed.storage.safe_open import read_safely
from sbeed.storage.safe_write import check_replaceable, write_file

STUDY = "sbeed"
_LARGEST = 2**28  # bytes: of 100,000 trials with a score at each of ten steps, and more


class _InMemory(BaseJournalBackend):
    """Entries of a journal that nothing is added to."""

    def __init__(self, entries: list[dict[str, Any]]):
        self._entries = entries

    def read_logs(self, log_number_from: int) -> list[dict[str, Any]]:
        return self._entries[log_number_from:]

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise ValueError("nothing is to be written")


def open_journal(path: Path, asked: dict[str, Any]) -> JournalStorage:
    """Open the journal of the search that was asked for; anything else is a one-line ValueError and nothing is written.

    The caller owns the directory (`lock`).
    """
    check_replaceable(path)
    if path.exists():
        content = _read(path)
        entries, whole = _entries(path, content)
        there = _asked(path, entries)
        if there not in (None, asked):
            raise ValueError(f"'{path.parent}' belongs to another search: its runs, seeds or ranges differ")
        if whole < len(content):
            write_file(path, content[:whole])
    return JournalStorage(JournalFileBackend(str(path)))


def _read(path: Path) -> bytes:
    try:
        return read_safely(path, _LARGEST)
    except ValueError as error:
        raise ValueError(f"'{path}' cannot be read ({error})") from None


def _entries(path: Path, content: bytes) -> tuple[list[dict[str, Any]], int]:
    """The entries, and the bytes that they take: all but a torn last line, which a full disk or a power cut leaves."""
    *lines, rest = content.split(b"\n")
    entries, size = [], 0
    for number, line in enumerate(lines, 1):
        try:
            entries.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == len(lines) and not rest and number > 1:
                break
            raise ValueError(f"'{path}' is damaged: its line {number} of {len(lines)} is not JSON") from None
        size += len(line) + 1
    return entries, size


def _asked(path: Path, entries: list[dict[str, Any]]) -> Any:
    """What the search in the journal was asked for; None if it was not told yet."""
    try:
        storage = JournalStorage(_InMemory(entries))
        if not storage.get_all_studies():
            return None
        study = optuna.load_study(study_name=STUDY, storage=storage)
        for trial in study.trials:
            _ = trial.params, trial.intermediate_values, trial.values
        return study.user_attrs.get("asked")
    except Exception as error:  # lines of JSON, but not Optuna's: it may stumble over them in any way
        raise ValueError(f"'{path}' is damaged: it is not what Optuna wrote ({error!r:.200})") from None
