"""A run's directory: its settings, rows, checkpoints and final models.

config.yaml            every setting, a file that `sbeed train --config` reads
metrics.jsonl          one row per seed and evaluation
tensorboard/seed_0/    the same numbers as TensorBoard events
checkpoints/, replay/  the states to resume from (`checkpoints`)
curve.png              the learning curve
model/                 the final parameters; with several seeds seed_0/, seed_1/, ...
lock                   names the process that owns the directory (`lock`)
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import yaml

from sbeed.storage.disk_errors import explained_disk_errors
from sbeed.storage.lock import LOCK, locked
from sbeed.storage.safe_open import open_safely, read_safely
from sbeed.storage.safe_write import beside, is_leftover, open_to_append, sweep, write_file

Row = dict[str, Any]

CONFIG, METRICS, CURVE, EVENTS = "config.yaml", "metrics.jsonl", "curve.png", "tensorboard"
MODEL = "model"
_LARGEST_CONFIG = 2**15  # characters; YAML takes a second for each 2^14
_LARGEST_METRICS = 2**30  # bytes


def check_free(path: Path) -> None:
    """Raise FileExistsError if the path is in use: the files of two runs never mix."""
    path = Path(path)
    # A process that was killed before the run had begun leaves these.
    left = lambda name: name in (LOCK, f".{CONFIG}") or is_leftover(name)
    if path.exists() and not (path.is_dir() and all(left(found.name) for found in path.iterdir())):
        raise FileExistsError(f"'{path}' exists and is not an empty directory: a run needs one of its own")


def check_run(path: Path) -> None:
    """Raise FileNotFoundError if the path is not a run's directory."""
    if not is_run(path):
        why = "it has no " + CONFIG if Path(path).exists() else "it does not exist"
        raise FileNotFoundError(f"'{path}' is not a run's directory: {why}")


def is_run(path: Path) -> bool:
    return (Path(path) / CONFIG).is_file()


class RunDir:
    """Own the directory of a run. A new run that fails before its first row or checkpoint leaves nothing behind.

    resume: accept a directory that holds a run, to continue it.
    """

    goes_on: bool  # the directory holds a run already

    def __init__(self, path: Path, *, resume: bool = False):
        self.path, self._resume = Path(path), resume
        self._shows = False  # there is a row or a checkpoint

    def __enter__(self) -> Self:
        self._check()  # before a lock file is left in a directory that is not a run's
        self._was_there = self.path.exists()
        with ExitStack() as undo:
            with explained_disk_errors(LOCK, self.path, len(str(os.getpid()))):
                self.path.mkdir(parents=True, exist_ok=True)
                undo.enter_context(locked(self.path))
            self._check()  # again: the last owner of the lock may have begun a run
            self.goes_on = is_run(self.path)
            undo.push(self._discard)
            self._open = undo.pop_all()
        return self

    def _check(self) -> None:
        if not (self._resume and is_run(self.path)):
            check_free(self.path)
        ours = (CONFIG, METRICS, CURVE, EVENTS, MODEL)
        for path in (*(self.path / name for name in ours), *(self.path / EVENTS).glob("*"), *self.path.glob("seed_*")):
            if path.is_symlink():
                raise FileExistsError(f"'{path}' is a link, which may lead anywhere: nothing is written there")
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise FileExistsError(f"'{path}' is not a plain file")

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Write the settings, which makes the directory a run's."""
        content = yaml.safe_dump(dict(settings), sort_keys=False).encode()
        with explained_disk_errors(CONFIG, self.path, len(content)):
            write_file(self.path / CONFIG, content)

    def open(self, seeds: Sequence[int], *, step: int = 0, rows: int = 0) -> None:
        """Open the files of rows. A run that continues loses rows beyond `rows` bytes, and events from `step` on."""
        sweep(self.path)  # of what a killed process left half-written
        self._seeds = seeds
        self._metrics = self._open.enter_context(open_to_append(self.path / METRICS))
        self._events = {seed: _Events(self.path / EVENTS / f"seed_{seed}") for seed in seeds}
        for events in self._events.values():
            self._open.callback(events.close)
        self.rewind(step, rows) if self.goes_on else self._cut(rows)

    def rewind(self, step: int, rows: int) -> None:
        """Let nothing have happened after `step`, when the rows had so many bytes."""
        self._cut(rows)
        for events in self._events.values():
            events.restart(step)
        for row in read_rows(self.path):
            if row.get("step", 0) >= step and row.get("seed") in self._seeds:  # those are dropped too
                self._events[row["seed"]].write(row)

    def _cut(self, rows: int) -> None:
        self._metrics.truncate(rows)
        self._rows = _hash_of(self.path / METRICS, rows)

    def append(self, rows: Iterable[Row]) -> None:
        """Write rows, which need `seed` and `step`; each is a whole line of the file when this returns."""
        for row in rows:
            line = json.dumps(_without_nan(row), allow_nan=False) + "\n"
            with explained_disk_errors("row", self.path, len(line)):
                self._metrics.write(line.encode())
                self._metrics.flush()
            self._rows.update(line.encode())
            self.keep()
            self._events[row["seed"]].write(row)

    def keep(self) -> None:
        """Keep the directory even if the run fails from here on."""
        self._shows = True

    @property
    def stays(self) -> bool:
        """True if the directory is kept even if the run fails."""
        return self.goes_on or self._shows

    def bytes_of_rows(self) -> int:
        """The size of metrics.jsonl, after it was synced to the disk."""
        path = self.path / METRICS
        if not path.exists():
            return 0
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            with explained_disk_errors(METRICS, self.path, size):
                os.fsync(file.fileno())
            return size

    def hash_of_rows(self, size: int | None = None) -> str:
        """The SHA-256 of all rows that were written, or of the first so many bytes of the file."""
        return self._rows.hexdigest() if size is None else hash_of_rows(self.path, size)

    def model(self, seed: int) -> Path:
        """The place of the model of that seed."""
        return model_of(self.path, self._seeds, seed)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._open.__exit__(kind, error, trace)  # closes every file, even if one fails on a full disk
        except OSError:
            if not isinstance(error, OSError):  # otherwise the first error says more
                raise

    def _discard(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or self.stays:
            return
        place = self.path.resolve()
        old = beside(place, "old")
        with suppress(OSError):
            place.rename(old)  # in one step: another process may wait to begin a run of that name
            shutil.rmtree(old)
            if self._was_there:
                place.mkdir()


class _Events:
    """A file of TensorBoard events. SummaryWriter is not used: on a full disk its thread dies and its caller hangs."""

    def __init__(self, directory: Path):
        from tensorboardX.event_file_writer import EventsWriter  # takes half a second, so only training imports it

        self._directory = directory
        with explained_disk_errors("events", directory):
            directory.mkdir(parents=True, exist_ok=True)
            number = len(list(directory.iterdir()))  # orders files of the same second
            self._writer = EventsWriter(str(directory / "events"), f".{number}.{secrets.token_hex(8)}")

    def close(self) -> None:
        self._writer.close()

    def restart(self, step: int) -> None:
        """Tell TensorBoard to drop the events of earlier files from that step on."""
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._write(Event(wall_time=time.time(), step=step, session_log=SessionLog(status=SessionLog.START)))

    def write(self, row: Row) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(wall_time=time.time(), step=row["step"])
        for name, value in row.items():
            if name not in ("seed", "step") and isinstance(value, int | float):
                event.summary.value.add(tag=name, simple_value=value)
        self._write(event)

    def _write(self, event: Any) -> None:
        needed = event.ByteSize() + 16  # with its length and two checksums
        with explained_disk_errors("event", self._directory, needed):
            self._writer.write_event(event)
            self._writer.flush()


def hash_of_rows(path: Path, size: int) -> str:
    """The SHA-256 of the first so many bytes of a run's rows."""
    return _hash_of(path / METRICS, size).hexdigest()


def _hash_of(path: Path, size: int) -> "hashlib._Hash":
    found = hashlib.sha256()
    with open_safely(path) as file:
        while size > 0 and (piece := file.read(min(size, 2**20))):
            found.update(piece)
            size -= len(piece)
    return found


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a run's directory, finished or not; a last line without its end is left out."""
    file = Path(path) / METRICS
    return parse_rows(io.StringIO(_text(file, _LARGEST_METRICS)), file)


def parse_rows(lines: Iterable[str], path: Path) -> list[Row]:
    """Parse lines to rows.   path: the file they are from, for the error message"""
    try:
        rows = [json.loads(line) for line in lines if line.endswith("\n")]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' holds something that is no row ({error})") from None
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"'{path}' holds something that is no row")
    return rows


class _Plain(yaml.SafeLoader):
    """YAML 1.2 in its core schema: 0100 is 100, 1:40 and off are text. No aliases, and no key twice."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a line that refers to others can stand for gigabytes
            raise yaml.YAMLError("an alias: settings are written out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        keys = [self.construct_object(key, deep=deep) for key, _ in pairs]
        twice = [key for key, count in Counter(map(repr, keys)).items() if count > 1]
        if twice:
            raise yaml.YAMLError(f"{twice[0]:.50} is given twice")
        return super().construct_mapping(node, deep=deep)

    def construct_yaml_int(self, node: Any) -> int:
        text = self.construct_scalar(node)
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+0123456789."),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Plain.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))
_Plain.add_constructor("tag:yaml.org,2002:int", _Plain.construct_yaml_int)


def _text(path: Path, most: int) -> str:
    """Read a file of the directory; links and pipes are refused, because the directory may come from anywhere."""
    try:
        return read_safely(path, most).decode()
    except ValueError as error:
        raise ValueError(f"'{path}' cannot be read ({error})") from None


def read_config(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file of a run as plain data; no YAML tag can run code."""
    return parse_config(_text(Path(path), 2**22), path)


def read_named_config(path: Path) -> dict[str, Any]:
    """Read a settings file that the user names, which may be a link or a pipe."""
    with Path(path).open() as file:
        try:
            text = file.read(_LARGEST_CONFIG + 1)
        except UnicodeDecodeError as error:
            raise ValueError(f"'{path}' is neither YAML nor JSON ({error})") from None
    return parse_config(text, path)


def parse_config(text: str, path: Path) -> dict[str, Any]:
    """Parse settings.   path: the file they are from, for the error message"""
    if len(text) > _LARGEST_CONFIG:
        raise ValueError(f"'{path}' is too long for a file of settings")
    try:
        found = yaml.load(text, _Plain)  # a SafeLoader, and JSON is YAML
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise ValueError(f"'{path}' is neither YAML nor JSON ({' '.join(str(error).split())})") from None
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ValueError(f"'{path}' must hold names and values, such as 'lam: 0.01'")
    return found


def model_of(path: Path, seeds: Sequence[int], seed: int) -> Path:
    """The place of the model of one of those seeds."""
    return Path(path) / (MODEL if len(seeds) == 1 else f"seed_{seed}")


def saved_models(path: Path) -> list[Path]:
    """The saved models of a run's directory, ordered by seed; for a saved model, that model alone."""
    path = Path(path)
    several = sorted(path.glob("seed_*"), key=lambda found: (len(found.name), found.name))
    found = [place for place in (path, path / MODEL, *several) if (place / "manifest.json").is_file()]
    if not found:
        raise FileNotFoundError(f"'{path}' holds no saved model" if path.exists() else f"'{path}' does not exist")
    return found


def _without_nan(row: Row) -> Row:
    """Replace NaN by null, which JSON has; the return before the first episode ends is NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
