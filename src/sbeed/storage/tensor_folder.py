"""A folder of named tensors and a manifest with their hashes: the format of saved models and datasets.

The tensor file holds one tensor for each leaf of a state; `manifest.json` describes the folder and its files.
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
    """One kind of tensor folder."""

    kind: str  # for error messages: "saved model"
    file: str  # name of the tensor file
    schema: int  # schema of the manifest that is written
    oldest: int  # oldest schema that is still read

    def save(self, directory: Path, state: Any, about: Mapping[str, Any]) -> None:
        """Write a pytree of arrays and its description `about`; an existing folder of this kind is replaced.

        The folder is written under a temporary name, synced to the disk and renamed, so that it is never half there.
        """
        named = tensors.named_tensors(state)
        room = explained_disk_errors(self.kind.split()[-1], directory, sum(tensor.nbytes for tensor in named.values()))
        with room, replacing(directory, {self.file, MANIFEST}, f"a {self.kind}") as new:
            described = tensors.write_tensors(new / self.file, named)
            file = {"name": self.file, "bytes": described["bytes"], "sha256": described["sha256"]}
            about = {"schema": self.schema, **about, "versions": tensors.versions()}
            tensors.write_manifest(new, {**about, "file": file, "tensors": described["tensors"]})

    def read_manifest(self, directory: Path) -> dict[str, Any]:
        """Read what `save` wrote about the state."""
        return tensors.read_manifest(directory, self.schema, self.kind, oldest=self.oldest)

    def load(self, directory: Path, like: Any, manifest: Mapping[str, Any] | None = None) -> Any:
        """Load the state: `like` with numpy arrays as leaves; the leaves of `like` need only `shape` and `dtype`.

        manifest: the manifest, if it has been read already
        """
        found = manifest if manifest is not None else self.read_manifest(directory)
        return tensors.read_tensors(Path(directory) / self.file, self.description(directory, found), like)

    def description(self, directory: Path, manifest: Mapping[str, Any]) -> tensors.Description:
        """The manifest's description of the tensor file."""
        try:
            return {**manifest["file"], "tensors": manifest["tensors"]}
        except (KeyError, TypeError):
            raise DamagedModel(f"'{Path(directory) / MANIFEST}' does not describe its tensors") from None


MODEL = TensorFolder("saved model", "model.safetensors", schema=2, oldest=1)  # 1: sbeed 0.1; others than its sbeed, pcl
DATASET = TensorFolder("dataset", "data.safetensors", schema=1, oldest=1)


@contextmanager
def replacing(directory: Path, ours: set[str], kind: str) -> Iterator[Path]:
    """Yield a temporary directory that replaces `directory` when the block ends.

    A directory with files other than `ours` is not replaced. kind: for the error message: "a saved model"
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
