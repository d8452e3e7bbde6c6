"""Write and read named tensors with hashes. Nothing is ever unpickled.

The name of a tensor is the path to its leaf ("pi/net/weights/0"), so that reordered fields cannot swap V and rho. A
manifest records the size and SHA-256 of the file, and the type, shape and SHA-256 of each tensor, because no tensor
format notices a flipped bit. jax is imported only where trees are taken apart; looking at files needs no jax.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse
from safetensors.numpy import save as tensor_bytes

from sbeed.storage.safe_open import open_safely, read_safely
from sbeed.storage.safe_write import write_file

MANIFEST = "manifest.json"
_PACKAGES = ("sbeed", "jax", "equinox", "gymnasium", "numpy")
SEAL, _LAST = "sha256", "tensors"  # names in a manifest; the second ended those that were written without a seal
_LARGEST_MANIFEST = 2**24  # bytes
_MOST_VALUES = 2**19  # of a manifest, which take some 100 bytes each
_MOST_AXES, _LONGEST_AXIS = 8, 2**40  # of a tensor
_DTYPES = frozenset(("bool", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64))))
_LARGEST_HEADER = 2**12, 2**10  # bytes of a file beside its numbers: these, and these for each tensor

Description = dict[str, Any]  # of a file: bytes, sha256, and {name: {dtype, shape, sha256}} of its tensors


class DamagedModel(ValueError):  # noqa: N818  reads as what it says
    """Raised for a saved model or checkpoint that cannot be used; the message is one line and names the file."""


def named_tensors(state: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree of arrays, named by their paths, such as "pi/net/weights/0"."""
    from jax.tree_util import tree_flatten_with_path

    leaves, _ = tree_flatten_with_path(state)
    # order="C" and not ascontiguousarray, which makes a vector of a scalar.
    return {_name(place): np.asarray(leaf, order="C") for place, leaf in leaves}


def _name(place: Any) -> str:
    from jax.tree_util import keystr

    return keystr(place, simple=True, separator="/")


# ------------------------------------------------------------------------------------------------- writing


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> Description:
    """Write a tensor file and sync it; returns the description that `read_tensors` needs."""
    content = tensor_bytes(dict(tensors))
    write_file(path, content)
    described = {name: describe(tensor) for name, tensor in tensors.items()}
    return {"bytes": len(content), "sha256": sha256(content), "tensors": described}


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write a manifest with a seal: the SHA-256 of its content."""
    write_file(directory / MANIFEST, _manifest_bytes({**manifest, SEAL: seal(manifest)}))


def seal(manifest: Mapping[str, Any]) -> str:
    return sha256(json.dumps(manifest, allow_nan=False).encode())


def _manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=1, allow_nan=False).encode()


def versions() -> dict[str, str | None]:
    """The versions of the packages on which the meaning of a file may depend."""
    return {package: _version(package) for package in _PACKAGES}


@cache  # metadata are searched for on the disk, which takes longer than to hash a small model
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # we are run from a source tree
        return None


def describe(tensor: np.ndarray) -> dict[str, Any]:
    """The type, shape and SHA-256 of a tensor."""
    # A view as bytes, without a copy.
    digest = sha256(tensor.reshape(-1).view(np.uint8).data)
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "sha256": digest}


def sha256(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------------------------------------------- reading


def read_manifest(
    directory: Path, schema: int, kind: str, *, oldest: int | None = None, sealed: bool = False
) -> dict[str, Any]:
    """Read what `write_manifest` wrote; raise DamagedModel if a byte differs.

    kind: for error messages: "saved model". oldest: oldest schema to read, by default `schema`. sealed: refuse older
    manifests without a seal, which cannot be checked.
    """
    path = Path(directory) / MANIFEST
    try:
        content = read_safely(path, _LARGEST_MANIFEST)
        if sum(map(content.count, (b",", b"[", b"{"))) > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        manifest = json.loads(content.decode())  # UTF-8: bytes would be taken for whatever they look like
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedModel(f"'{directory}' is not a {kind}: it holds no {MANIFEST}") from None
    except (ValueError, RecursionError, OSError) as error:
        raise DamagedModel(f"'{path}' cannot be read ({error})") from None
    found = manifest.get("schema") if isinstance(manifest, dict) else None
    if isinstance(found, int) and found > schema:
        raise DamagedModel(f"'{path}' is of schema {found}; this version of sbeed reads schema {schema}, no newer one")
    if type(found) is not int or found < (oldest or schema):
        raise DamagedModel(f"'{path}' is not a manifest of schema {schema}")
    if SEAL not in manifest and not sealed and list(manifest)[-1] == _LAST:
        return manifest
    if not _is_as_written(manifest, content):
        raise DamagedModel(f"'{path}' is not what was saved: it is not as this version of sbeed writes it")
    if manifest.pop(SEAL, None) != seal(manifest):
        raise DamagedModel(f"'{path}' is not what was saved: its SHA-256 differs from its content's")
    return manifest


def _is_as_written(manifest: Mapping[str, Any], content: bytes) -> bool:
    try:
        return _manifest_bytes(manifest) == content
    except (ValueError, RecursionError):  # NaN, or deeper than anything of ours
        return False


def read_tensors(path: Path, described: Description, like: Any) -> Any:
    """Read a tensor file: `like` with numpy arrays as leaves; the leaves of `like` need only `shape` and `dtype`.

    Names, types, shapes and sizes are checked before the file is read, hashes before the tensors are used.
    """
    from jax.tree_util import tree_flatten_with_path, tree_unflatten

    leaves, shape_of_tree = tree_flatten_with_path(like)
    expected = {_name(place): _kind(np.dtype(leaf.dtype), leaf.shape) for place, leaf in leaves}
    try:
        size, digest, promised = described["bytes"], described["sha256"], described["tensors"]
        found = {name: {"dtype": one["dtype"], "shape": one["shape"]} for name, one in promised.items()}
    except (KeyError, TypeError, AttributeError):
        raise DamagedModel(f"the manifest of '{path}' does not describe its tensors") from None
    if found != expected:
        name = sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))[0]
        is_, should = _words(found.get(name)), _words(expected.get(name))
        raise DamagedModel(f"'{path}': tensor {name} is {is_}, but its config asks for {should}")
    base, each = _LARGEST_HEADER
    most = base + sum(each + np.dtype(leaf.dtype).itemsize * int(np.prod(leaf.shape)) for _, leaf in leaves)
    try:
        content = read_safely(path, most)
    except (OSError, ValueError) as error:
        reason = "it is not there" if isinstance(error, FileNotFoundError) else error
        raise DamagedModel(f"'{path}' cannot be read ({reason})") from None
    if len(content) != size:
        raise DamagedModel(f"'{path}' does not have the {size!r} bytes that the manifest promises")
    try:
        tensors = parse(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise DamagedModel(f"'{path}' is not what was saved: it cannot be read ({error})") from None
    for name in sorted(tensors.keys() | promised.keys()):
        if name not in tensors or promised.get(name) != describe(tensors[name]):
            raise DamagedModel(f"'{path}' is not what was saved: tensor {name} is not what the manifest describes")
    if sha256(content) != digest:
        raise DamagedModel(f"'{path}' is not what was saved: its SHA-256 differs from the manifest's")
    return tree_unflatten(shape_of_tree, [tensors[name] for name in expected])


def bytes_of(kind: Mapping[str, Any]) -> int:
    """The size of a tensor that a manifest describes; raise ValueError if sbeed cannot have written it."""
    dtype, shape = kind["dtype"], kind["shape"]
    if not (isinstance(dtype, str) and dtype in _DTYPES):
        raise ValueError(f"{dtype!r:.50} is no type of a tensor")
    if not (isinstance(shape, list) and len(shape) <= _MOST_AXES):
        raise ValueError(f"a tensor has more than {_MOST_AXES} axes")
    if not all(type(length) is int and 0 <= length <= _LONGEST_AXIS for length in shape):
        raise ValueError("the length of an axis of a tensor is none")
    return math.prod(shape) * np.dtype(dtype).itemsize


def state_of_file(path: Path, described: Description) -> str:
    """Compare a file with its description, without loading it whole; returns "whole" or what is wrong."""
    try:
        with open_safely(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size != described["bytes"]:
                return f"has {size} bytes"
            same = hashlib.file_digest(file, "sha256").hexdigest() == described["sha256"]
            return "whole" if same else "SHA-256 differs"
    except FileNotFoundError:
        return "not there"
    except (OSError, ValueError) as error:
        return str(error)


def _kind(dtype: np.dtype, shape: tuple[int, ...]) -> dict[str, Any]:
    return {"dtype": str(dtype), "shape": list(shape)}


def _words(kind: dict[str, Any] | None) -> str:
    return "absent" if kind is None else f"{kind['dtype']}{kind['shape']}"
