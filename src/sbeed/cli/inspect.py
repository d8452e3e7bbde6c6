"""`sbeed inspect`: show and check the content of files."""

import json as json_module
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sbeed.cli.console import complaints

if TYPE_CHECKING:
    from rich.table import Table

    from sbeed.storage.inspect import Findings


@dataclass(frozen=True)
class Inspect:
    """Show the content of a run's directory, a checkpoint, a saved model or a dataset, without building an agent.

    Every file is compared with its manifest. Exit code 1 if one differs from what was saved.
    """

    path: Annotated[Path, tyro.conf.Positional]
    """A run's directory, a checkpoint (RUN/checkpoints/step_...), a saved model or a dataset."""
    json: bool = False
    """Print everything as JSON."""

    def __call__(self) -> int:
        from sbeed.storage.inspect import inspect, is_whole

        with complaints(ValueError, OSError):
            found = inspect(self.path)
            if self.json:
                print(json_module.dumps(found, indent=1, allow_nan=False, default=str))
            else:
                _print(found)
        return 0 if is_whole(found) else 1


def _print(found: "Findings") -> None:
    from rich.console import Console

    console, shown = Console(), ("seeds", "restarts")
    facts = {name: value for name, value in found.items() if not isinstance(value, list | dict) or name in shown}
    console.print(_table(f"{found['kind']} {found['path']}", ("", ""), facts.items()))
    for name in ("env", "config", "origin", "versions"):
        if name in found:
            console.print(_table(name, ("", ""), found[name].items()))
    files = list(_files(found))
    if files:
        console.print(_table("files", ("", "bytes", "state"), files))
    if "tensors" in found:
        rows = [(one["name"], one["dtype"], one["shape"], one["bytes"]) for one in found["tensors"]]
        console.print(_table("tensors", ("", "type", "shape", "bytes"), rows))


def _files(found: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any, str]]:
    """Name, bytes and state of each file; a run's checkpoints and models are included, shared parts listed once."""
    seen = set()
    if "damage" in found:
        yield where.rstrip("/"), "", found["damage"]
    for file in found.get("files", ()):
        yield where + file["name"], file["bytes"], file["state"]
    for one in (*found.get("checkpoints", ()), *found.get("models", ())):
        for row in _files(one, f"{Path(one['path']).name}/"):
            part = row[0].rpartition("/")[2]
            if not (part.startswith("part_") and part in seen):
                yield row
            seen.add(part)


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title=_shown(title), title_justify="left", show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row))
    return table


def _shown(value: Any) -> str:
    """Format a value as JSON, so that no control character of a file reaches the terminal."""
    text = json_module.dumps(value, ensure_ascii=False, default=str)
    return text[1:-1] if isinstance(value, str) else text
