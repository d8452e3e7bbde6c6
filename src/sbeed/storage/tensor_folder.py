"""A folder of named tensors and a manifest that vouches for them: what a saved model and a dataset are on the disk.

The tensors' file holds one tensor for each leaf of a state; `manifest.json` says what the folder is and describes it.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbeed.storage import tensors
from sbeed.storage.disk_errors import explained_disk_errors
from sbeed.storage.safe_write import beside, sweep_beside, sync
from sbeed.storage.tensors import MANIFEST, DamagedModel


@dataclass(frozen=True)
class TensorFolder:
    """One kind of such folders."""

    kind: str  # for a complaint: "saved model"
    file: str  # with the tensors
    schema: int  # of the manifest, as it is written
    oldest: int  # schema that is still read

    def save(self, directory: Path, state: Any, about: Mapping[str, Any]) -> None:
        """Write a pytree of arrays and what is to be known `about` it; a folder of this kind is replaced.

        All of it is written under another name and on the disk before it takes its place: at no time does half a
        folder stand there.
        """
        named = tensors.named_tensors(state)
        room = explained_disk_errors(self.kind.split()[-1], directory, sum(tensor.nbytes for tensor in named.values()))
        with room, replacing(directory, {self.file, MANIFEST}, f"a {self.kind}") as new:
            described = tensors.write_tensors(new / self.file, named)
            file = {"name": self.file, "bytes": described["bytes"], "sha256": described["sha256"]}
            about = {"schema": self.schema, **about, "versions": tensors.versions()}
            tensors.write_manifest(new, {**about, "file": file, "tensors": described["tensors"]})

    def read_manifest(self, directory: Path) -> dict[str, Any]:
        """What `save` was told about the state, and what it added."""
        return tensors.read_manifest(directory, self.schema, self.kind, oldest=self.oldest)

    def load(self, directory: Path, like: Any, manifest: Mapping[str, Any] | None = None) -> Any:
        """The saved state, with numpy arrays in the places of `like`'s leaves, which need only `shape` and `dtype`.

        manifest: if it has been read already.
        """
        found = manifest if manifest is not None else self.read_manifest(directory)
        return tensors.read_tensors(Path(directory) / self.file, self.description(directory, found), like)

    def description(self, directory: Path, manifest: Mapping[str, Any]) -> tensors.Description:
        """What the manifest says of the tensors' file."""
        try:
            return {**manifest["file"], "tensors": manifest["tensors"]}
        except (KeyError, TypeError):
            raise DamagedModel(f"'{Path(directory) / MANIFEST}' does not describe its tensors") from None


MODEL = TensorFolder("saved model", "model.safetensors", schema=2, oldest=1)  # 1: sbeed 0.1; others than its sbeed, pcl
DATASET = TensorFolder("dataset", "data.safetensors", schema=1, oldest=1)


@contextmanager
def replacing(directory: Path, ours: set[str], kind: str) -> Iterator[Path]:
    """A new directory that takes that place when the block ends, if nothing but files of `ours` is there already.

    kind: what they make up, for a complaint: "a saved model".
    """
    directory = Path(directory).resolve()
    if directory.exists() and not (directory.is_dir() and {path.name for path in directory.iterdir()} <= ours):
        raise FileExistsError(f"'{directory}' exists and is not {kind}: it is not overwritten")
    new, old = (beside(directory, word) for word in ("new", "old"))
    new.mkdir(parents=True)
    sweep_beside(directory)
    try:
        yield new
        if directory.exists():
            directory.rename(old)
        new.rename(directory)
        sync(directory.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
