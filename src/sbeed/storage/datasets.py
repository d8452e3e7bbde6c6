"""Save and load datasets: `data.safetensors` with a tensor for each field, and a manifest with their hashes.

Loading checks twice: hashes tell whether the data are what was saved, and `Dataset` tells whether they are sound.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces as gymnasium_spaces

from sbeed.data.dataset import MOST, BadData, Dataset, check_spaces, kinds
from sbeed.envs import spaces
from sbeed.storage import tensors
from sbeed.storage.tensor_folder import DATASET
from sbeed.storage.tensors import MANIFEST, DamagedModel
from sbeed.types import Transition

_MOST_SIZE = 2**16  # of a vector, or numbers of a discrete space: what no observation or action exceeds
_LONGEST_NAME = 200


def save_dataset(path: str | Path, dataset: Dataset) -> None:
    """Write a directory; an existing dataset there is replaced in one rename."""
    DATASET.save(Path(path), dataset.data, {"kind": DATASET.kind, **_about(dataset)})


def load_dataset(path: str | Path) -> Dataset:
    """Load a dataset; raise DamagedModel if it differs from what was saved, BadData if its data are not sound."""
    path = Path(path)
    manifest = DATASET.read_manifest(path)
    try:
        if manifest["kind"] != DATASET.kind:
            raise ValueError(f"it is of the kind {manifest['kind']!r}")
        seen, done = (read_space(manifest[f"{kind}_space"]) for kind in ("observation", "action"))
        check_spaces(seen, done)
        count, name, origin = manifest["transitions"], manifest["name"], manifest["origin"]
        if not (isinstance(count, int) and 0 < count <= MOST):
            raise ValueError(f"{count!r} is no number of transitions")
        if not (isinstance(name, str) and len(name) <= _LONGEST_NAME and name.isprintable()):
            raise ValueError("its name is no short text")
        if not isinstance(origin, dict):
            raise ValueError("its origin is not told by names and values")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DamagedModel(f"'{path / MANIFEST}' is not a dataset's: {reason}") from None
    like: dict[str, Any] = {key: _Like((count, *shape), dtype) for key, (dtype, shape) in kinds(seen, done).items()}
    data = DATASET.load(path, Transition(**like), manifest)
    try:
        return Dataset(name, seen, done, data, origin)
    except BadData as error:
        error.add_note(f"in '{path}'")
        raise


def fingerprint(dataset: Dataset) -> str:
    """The SHA-256 of all that learning depends on: the data and the spaces."""
    about = {key: value for key, value in _about(dataset).items() if key != "origin"}
    described = {key: tensors.describe(x) for key, x in _named(dataset).items()}
    return tensors.sha256(json.dumps({**about, "tensors": described}, sort_keys=True).encode())


def _about(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "observation_space": spaces.to_json(dataset.observation_space),
        "action_space": spaces.to_json(dataset.action_space),
        "transitions": len(dataset),
        "origin": dict(dataset.origin),
    }


def _named(dataset: Dataset) -> dict[str, np.ndarray]:
    return {key: np.ascontiguousarray(x) for key, x in dataset.data._asdict().items()}


class _Like:
    """The shape and the type of a tensor that has not been read yet."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape, self.dtype = shape, dtype


def read_space(data: Mapping[str, Any]) -> gymnasium_spaces.Space:
    """Read a space from a file; its sizes are checked before anything is allocated."""
    if data["kind"] == "discrete":
        n, start = data["n"], data["start"]
        if not (_is_whole(n) and 0 < n <= _MOST_SIZE and _is_whole(start) and abs(start) < 2**31 - _MOST_SIZE):
            raise ValueError("a discrete space is out of range")
    elif data["kind"] == "box":
        shape, bounds = data["shape"], (data["low"], data["high"])
        if not (isinstance(shape, list) and len(shape) == 1 and _is_whole(shape[0]) and 0 < shape[0] <= _MOST_SIZE):
            raise ValueError("the shape of a box is not a list of one size")
        if data["dtype"] not in ("float32", "float64"):
            raise ValueError(f"{data['dtype']!r} is no type of a box")
        for side in bounds:
            if not (isinstance(side, list) and len(side) == shape[0] and all(map(_is_bound, side))):
                raise ValueError("a bound of a box is no list of its numbers")
        if any(a is not None and b is not None and a > b for a, b in zip(*bounds)):
            raise ValueError("a lower bound of a box is above the upper one")
    else:
        raise ValueError(f"{data['kind']!r} is no kind of a space")
    return spaces.from_json(data)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bound(value: Any) -> bool:
    """True for a number, or for null, which stands for an infinite bound."""
    return value is None or _is_whole(value) or isinstance(value, float)
