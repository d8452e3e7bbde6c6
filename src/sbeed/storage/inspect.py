"""Describe a run's directory, a checkpoint, a saved model or a dataset from its files, without building an agent."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sbeed.storage import run_dir, tensors
from sbeed.storage.checkpoints import CHECKPOINTS, REPLAY, STATE, Checkpoint, place_of, step_of, steps_of
from sbeed.storage.tensor_folder import DATASET, MODEL
from sbeed.storage.tensors import MANIFEST, DamagedModel, Description

Findings = dict[str, Any]  # plain data; `sbeed inspect --json` prints it


def inspect(path: Path) -> Findings:
    """Describe the files; raise DamagedModel if they are none of these.

    `kind` is "run", "checkpoint", "model" or "dataset". For every file that a manifest describes, `state` is "whole" or
    says what is wrong with it.
    """
    path = Path(path)
    if run_dir.is_run(path):
        return _run(path)
    step = step_of(path)
    if step is not None and path.resolve().parent.name == CHECKPOINTS:
        return _checkpoint(path.resolve().parent.parent, step)
    return _model(path)


def is_whole(found: Findings) -> bool:
    """True if every file is what was saved."""
    inner = [*found.get("checkpoints", ()), *found.get("models", ())]
    return (
        "damage" not in found
        and all(is_whole(one) for one in inner)
        and all(file["state"] == "whole" for file in found.get("files", ()))
    )


def _run(path: Path) -> Findings:
    rows = run_dir.read_rows(path) if (path / run_dir.METRICS).is_file() else []
    places = [place for place in (path / run_dir.MODEL, *sorted(path.glob("seed_*"))) if (place / MANIFEST).exists()]
    return {
        "kind": "run",
        "path": str(path),
        "config": run_dir.read_config(path / run_dir.CONFIG),
        "rows": len(rows),
        "step": max((row.get("step", 0) for row in rows), default=0),
        "checkpoints": [_or_damage(place_of(path, step), partial(_checkpoint, path, step)) for step in steps_of(path)],
        "models": [_or_damage(place, partial(_model, place)) for place in places],
    }


def _or_damage(path: Path, look: Callable[[], Findings]) -> Findings:
    try:
        return look()
    except DamagedModel as error:
        return {"path": str(path), "damage": str(error)}


def _checkpoint(run: Path, step: int) -> Findings:
    found = Checkpoint(run, step)
    with _complaints(found.path):
        about = found.about["run"]
        described = [(found.path / STATE, found.file), *((run / REPLAY / part.name, part.file) for part in found.parts)]
        return {
            "kind": "checkpoint",
            "path": str(found.path),
            "step": step,
            "agent": about["agent"],
            "env": _names(about["env"]),
            "seeds": about["seeds"],
            "config": _names(about["config"]),
            "versions": _names(found.versions),
            "transitions": found.held,
            "restarts": _names(found.about.get("past", {})).get("restarts", []),
            "files": [_file(*one) for one in described],
            "tensors": _tensors(found.file["tensors"]),
        }


def _model(path: Path) -> Findings:
    folder = DATASET if (path / DATASET.file).exists() else MODEL
    manifest = folder.read_manifest(path)
    with _complaints(path):
        described = folder.description(path, manifest)
        if manifest.get("kind") == DATASET.kind:
            return {
                "kind": DATASET.kind,
                "path": str(path),
                **{name: manifest[name] for name in ("name", "transitions")},
                **{name: _names(manifest[name]) for name in ("origin", "versions")},
                "files": [_file(path / DATASET.file, described)],
                "tensors": _tensors(manifest["tensors"]),
            }
        return {
            "kind": "model",
            "path": str(path),
            "step": manifest["steps"],
            **{name: manifest[name] for name in ("agent", "preset", "seed")},
            **{name: _names(manifest[name]) for name in ("env", "config", "versions")},
            "files": [_file(path / MODEL.file, described)],
            "tensors": _tensors(manifest["tensors"]),
        }


def _file(path: Path, described: Description) -> Findings:
    return {"name": path.name, "bytes": described["bytes"], "state": tensors.state_of_file(path, described)}


def _tensors(described: Mapping[str, Any]) -> list[Findings]:
    return [
        {
            **{"name": name, "dtype": one["dtype"], "shape": one["shape"]},
            "bytes": tensors.bytes_of(one),
        }
        for name, one in described.items()
    ]


def _names(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict):
        raise TypeError(f"{type(found).__name__} where names and values should be")
    return found


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedModel(f"'{path / MANIFEST}' is not a manifest of ours ({error})") from None
