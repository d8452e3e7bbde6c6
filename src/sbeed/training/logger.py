"""Rows of numbers while an agent learns, between its evaluations too."""

import json
import math
from collections import deque
from pathlib import Path
from typing import Any

from sbeed.storage.safe_write import open_to_append

MOST_ROWS = 10_000  # kept in memory, the newest


class Logger:
    """Collects numbers by name until `dump` makes a row of them.

    It has the methods of Stable-Baselines3's logger that callbacks call, and either can be given to `set_logger`.

    rows: the newest rows. path: a file to which each row is appended as a line of JSON.
    """

    def __init__(self, path: str | Path | None = None):
        self.path = None if path is None else Path(path)
        self.rows: deque[dict[str, Any]] = deque(maxlen=MOST_ROWS)
        self.name_to_value: dict[str, Any] = {}
        self._counts: dict[str, int] = {}

    def record(self, name: str, value: Any, exclude: Any = None) -> None:
        """Set a number of the next row.   exclude: ignored, there is one output"""
        self.name_to_value[name] = value.item() if hasattr(value, "item") else value

    def record_mean(self, name: str, value: Any, exclude: Any = None) -> None:
        """Average over all calls until the next row."""
        count = self._counts[name] = self._counts.get(name, 0) + 1
        before = self.name_to_value.get(name, 0.0)
        self.record(name, before + (float(value) - before) / count)

    def dump(self, step: int = 0) -> None:
        """Make a row of what was recorded since the last one."""
        row = {"step": step, **self.name_to_value}
        self.name_to_value, self._counts = {}, {}
        self.rows.append(row)
        if self.path is not None:
            with open_to_append(self.path) as file:
                file.write(f"{json.dumps(_plain(row), allow_nan=False)}\n".encode())


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: it is null. What is neither number nor text is its text."""
    finite = {name: None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}
    return {name: x if isinstance(x, int | float | str | None) else str(x) for name, x in finite.items()}
