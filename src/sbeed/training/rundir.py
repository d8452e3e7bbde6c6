"""A run's directory: what was asked for, what was measured, and the models it ended with.

config.yaml            every setting, a file that `sbeed train --config` reads
metrics.jsonl          one row per seed and evaluation
tensorboard/seed_0/    the same numbers as TensorBoard events
curve.png              the learning curve
model/                 the final parameters; with several seeds seed_0/, seed_1/, ...
"""

import json
import math
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

Row = dict[str, Any]

CONFIG, METRICS, CURVE, EVENTS = "config.yaml", "metrics.jsonl", "curve.png", "tensorboard"
MODEL = "model"


def check_free(path: Path) -> None:
    """A FileExistsError where something is already: a run never mixes with another's files."""
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise FileExistsError(f"'{path}' exists and is not an empty directory: a run needs one of its own")


class RunDir:
    """The directory of a run under way. One that fails before its first row leaves nothing behind."""

    def __init__(self, path: Path, settings: Mapping[str, Any], seeds: Sequence[int]):
        self.path, self._settings, self._seeds = Path(path), dict(settings), seeds
        self._rows = 0

    def __enter__(self) -> Self:
        check_free(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, self.path)
            (self.path / CONFIG).write_text(yaml.safe_dump(self._settings, sort_keys=False))
            self._metrics = undo.enter_context((self.path / METRICS).open("a"))
            self._events = {seed: _Events(self.path / EVENTS / f"seed_{seed}") for seed in self._seeds}
            undo.pop_all()
        return self

    def append(self, rows: Iterable[Row]) -> None:
        """Rows that hold `seed` and `step`; each is on its line, whole, when this returns."""
        for row in rows:
            self._metrics.write(json.dumps(_without_nan(row), allow_nan=False) + "\n")
            self._metrics.flush()
            self._rows += 1
            self._events[row["seed"]].write(row)

    def model(self, seed: int) -> Path:
        """Where the model of that seed goes."""
        return self.path / (MODEL if len(self._seeds) == 1 else f"seed_{seed}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as each:  # of which all happen, whatever one says of a full disk
            if error is not None and self._rows == 0:
                each.callback(shutil.rmtree, self.path)
            each.callback(self._metrics.close)
            for events in self._events.values():
                each.callback(events.close)


class _Events:
    """A file of TensorBoard's. Not by SummaryWriter, whose thread dies of a full disk and leaves us waiting for it."""

    def __init__(self, directory: Path):
        from tensorboardX.event_file_writer import EventsWriter  # half a second that only a training run spends

        directory.mkdir(parents=True)
        self._writer = EventsWriter(str(directory / "events"))

    def close(self) -> None:
        self._writer.close()

    def write(self, row: Row) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), step=row["step"])
        for name, value in row.items():
            if name not in ("seed", "step") and isinstance(value, int | float):
                event.summary.value.add(tag=name, simple_value=value)
        self._writer.write_event(event)
        self._writer.flush()


def read_rows(path: Path) -> list[Row]:
    """The rows of a run's directory, also of one that is still being written: a line without its end is left out."""
    with (Path(path) / METRICS).open() as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def read_config(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML or JSON file, as plain data: no tag of YAML's can run anything."""
    try:
        found = yaml.safe_load(Path(path).read_text())  # JSON is YAML
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"'{path}' is neither YAML nor JSON ({' '.join(str(error).split())})") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ValueError(f"'{path}' must hold names and values, such as 'lam: 0.01'")
    return found


def models(path: Path) -> list[Path]:
    """The saved models of a run's directory, in the order of their seeds; a saved model stands for itself."""
    path = Path(path)
    several = sorted(path.glob("seed_*"), key=lambda found: (len(found.name), found.name))
    found = [place for place in (path, path / MODEL, *several) if (place / "manifest.json").is_file()]
    if not found:
        raise FileNotFoundError(f"'{path}' holds no saved model" if path.exists() else f"'{path}' does not exist")
    return found


def _without_nan(row: Row) -> Row:
    """JSON has no NaN: the return before the first episode ends is null."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
