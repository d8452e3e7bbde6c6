"""A saved model: a directory of named tensors and a manifest that vouches for them.

`model.safetensors` holds one tensor per leaf of a state; `manifest.json` says what the model is and describes the file.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sbeed.training import tensors
from sbeed.training.room import room_for
from sbeed.training.tensors import MANIFEST, DamagedModel

SCHEMA = 2  # 1: sbeed 0.1; other agents than its sbeed and pcl are read (`about`)
TENSORS = "model.safetensors"
DATASET, DATA, DATA_SCHEMA = "dataset", "data.safetensors", 1  # a dataset's: here, where no jax is (`datafiles`)


def save(directory: Path, state: Any, about: Mapping[str, Any]) -> None:
    """Write `state` and what is to be known `about` it; a model that is there already is replaced.

    All of it is written under another name and on the disk before it takes its place: at no time does half a model
    stand there.
    """
    named = tensors.named_tensors(state)
    room = room_for("model", directory, sum(tensor.nbytes for tensor in named.values()))
    with room, replacing(directory, {TENSORS, MANIFEST}, "a saved model") as new:
        described = tensors.write_tensors(new / TENSORS, named)
        file = {"name": TENSORS, "bytes": described["bytes"], "sha256": described["sha256"]}
        about = {"schema": SCHEMA, **about, "versions": tensors.versions()}
        tensors.write_manifest(new, {**about, "file": file, "tensors": described["tensors"]})


@contextmanager
def replacing(directory: Path, ours: set[str], kind: str) -> Iterator[Path]:
    """A new directory that takes that place when the block ends, if nothing but files of `ours` is there already.

    kind: what they make up, for a complaint: "a saved model".
    """
    directory = Path(directory).resolve()
    if directory.exists() and not (directory.is_dir() and {path.name for path in directory.iterdir()} <= ours):
        raise FileExistsError(f"'{directory}' exists and is not {kind}: it is not overwritten")
    new, old = (directory.with_name(f".{directory.name}.{word}-{os.getpid()}") for word in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)  # of a process of that number that was killed
    new.mkdir(parents=True)
    try:
        yield new
        if directory.exists():
            directory.rename(old)
        new.rename(directory)
        tensors.sync(directory.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def read_manifest(directory: Path) -> dict[str, Any]:
    """What `save` was told about the model, and what it added."""
    return tensors.read_manifest(directory, SCHEMA, "saved model", oldest=1)


def load(directory: Path, like: Any) -> Any:
    """The saved state, with numpy arrays in the places of `like`'s leaves.

    like: a state of the same agent, config and environment; its leaves need only `shape` and `dtype`.
    """
    manifest, path = read_manifest(directory), Path(directory) / TENSORS
    try:
        described = {**manifest["file"], "tensors": manifest["tensors"]}
    except (KeyError, TypeError):
        raise DamagedModel(f"'{Path(directory) / MANIFEST}' does not describe its tensors") from None
    return tensors.read_tensors(path, described, like)
