"""A saved model: a directory of named tensors and a manifest that vouches for them. Nothing in it is ever unpickled.

`model.safetensors` holds one tensor per leaf of a state, named by its path ("pi/net/weights/0"), so that fields may be
reordered without V and rho changing places. `manifest.json` says what the model is and gives the file's size and
SHA-256, and of each tensor the type, the shape and the SHA-256: no tensor format notices a flipped bit by itself.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as tensor_bytes

SCHEMA = 1
TENSORS, MANIFEST = "model.safetensors", "manifest.json"
_PACKAGES = ("sbeed", "jax", "equinox", "gymnasium", "numpy")


class DamagedModel(ValueError):  # noqa: N818  reads as what it says
    """A saved model that cannot be used; the message is one line and names the file."""


def save(directory: Path, state: Any, about: Mapping[str, Any]) -> None:
    """Write `state` and what is to be known `about` it; a model that is there already is replaced.

    All of it is written under another name and on the disk before it takes its place: at no time does half a model
    stand there.
    """
    directory = Path(directory).resolve()
    if directory.exists() and not _replaceable(directory):
        raise FileExistsError(f"'{directory}' exists and is not a saved model: it is not overwritten")
    tensors = named_tensors(state)
    content = tensor_bytes(tensors)
    manifest = {
        "schema": SCHEMA,
        **about,
        "versions": {package: _version(package) for package in _PACKAGES},
        "file": {"name": TENSORS, "bytes": len(content), "sha256": _sha256(content)},
        "tensors": {name: _describe(tensor) for name, tensor in tensors.items()},
    }
    new, old = (directory.with_name(f".{directory.name}.{word}-{os.getpid()}") for word in ("new", "old"))
    shutil.rmtree(new, ignore_errors=True)  # of a process of that number that was killed
    new.mkdir(parents=True)
    try:
        _write(new / TENSORS, content)
        _write(new / MANIFEST, json.dumps(manifest, indent=1, allow_nan=False).encode())
        if directory.exists():
            directory.rename(old)
        new.rename(directory)
        _sync(directory.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def read_manifest(directory: Path) -> dict[str, Any]:
    """What `save` was told about the model, and what it added."""
    path = Path(directory) / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedModel(f"'{directory}' is not a saved model: it holds no {MANIFEST}") from None
    except (ValueError, RecursionError) as error:
        raise DamagedModel(f"'{path}' cannot be read ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
        raise DamagedModel(f"'{path}' is not a manifest of schema {SCHEMA}")
    return manifest


def load(directory: Path, like: Any) -> Any:
    """The saved state, with numpy arrays in the places of `like`'s leaves.

    like: a state of the same agent, config and environment; its leaves need only `shape` and `dtype`. Sizes and hashes
    are checked before anything is read from the file, and names, types and shapes before anything is used.
    """
    manifest, path = read_manifest(directory), Path(directory) / TENSORS
    try:
        size, digest = manifest["file"]["bytes"], manifest["file"]["sha256"]
        tensors_promised = dict(manifest["tensors"])
    except (KeyError, TypeError, ValueError):
        raise DamagedModel(f"'{Path(directory) / MANIFEST}' does not describe its tensors") from None
    if not path.is_file() or path.stat().st_size != size:
        raise DamagedModel(f"'{path}' is not there or does not have the {size!r} bytes that the manifest promises")
    content = path.read_bytes()
    if _sha256(content) != digest:
        raise DamagedModel(f"'{path}' is not what was saved: its SHA-256 differs from the manifest's")
    try:
        tensors = read_tensors(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedModel(f"'{path}' cannot be read ({error})") from None
    for name, tensor in tensors.items():
        if tensors_promised.get(name) != _describe(tensor):
            raise DamagedModel(f"'{path}': tensor {name} is not what the manifest describes")

    leaves, shape_of_tree = jax.tree_util.tree_flatten_with_path(like)
    expected = {_name(place): (np.dtype(leaf.dtype), tuple(leaf.shape)) for place, leaf in leaves}
    found = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        name = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))[0]
        is_, should = _words(found.get(name)), _words(expected.get(name))
        raise DamagedModel(f"'{path}': tensor {name} is {is_}, but its config asks for {should}")
    return jax.tree_util.tree_unflatten(shape_of_tree, [tensors[name] for name in expected])


def named_tensors(state: Any) -> dict[str, np.ndarray]:
    """Every leaf of a pytree of arrays under the path that leads to it, e.g. "pi/net/weights/0"."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    # order="C" and not ascontiguousarray, which makes a vector of a scalar.
    return {_name(place): np.asarray(leaf, order="C") for place, leaf in leaves}


def _name(place: Any) -> str:
    return jax.tree_util.keystr(place, simple=True, separator="/")


def _describe(tensor: np.ndarray) -> dict[str, Any]:
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "sha256": _sha256(tensor.tobytes())}


def _words(kind: tuple[np.dtype, tuple[int, ...]] | None) -> str:
    return "absent" if kind is None else f"{kind[0]}{list(kind[1])}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # we are run from a source tree
        return None


def _replaceable(directory: Path) -> bool:
    """An empty directory, or a saved model with nothing of anybody else's in it."""
    return directory.is_dir() and {path.name for path in directory.iterdir()} <= {TENSORS, MANIFEST}


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """A rename or a new name is on the disk only once its directory is."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
