"""Datasets made to do harm, our own and Minari's, from golden files."""

import json
import pickle
import random
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.reliability.hostile_files import (
    ELSEWHERE,
    FORGED_TENSORS,
    MANIFESTS,
    Evil,
    Kind,
    _directory,
    _link,
    _link_out,
    _model_manifest,
    _model_place,
    _pipe,
)
from sbeed.storage import tensors
from sbeed.storage.tensor_folder import DATASET

DATA_PLACES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "another kind": (("kind",), "model"),
    "an unknown space": (("observation_space", "kind"), "os.system"),
    "a space of 10^12": (("observation_space", "shape"), [10**12]),
    "a space of objects": (("action_space", "dtype"), "object"),
    "bounds that are text": (("action_space", "low"), ["__import__('os')"]),
    "10^15 transitions": (("transitions",), 10**15),
    "transitions below 0": (("transitions",), -1),
    "transitions that are text": (("transitions",), "all"),
    "a name that is a list": (("name",), ["os:system"]),
    "a name of 10^5 letters": (("name",), "x" * 10**5),
    "an origin that is text": (("origin",), "os.system"),
    "a file of 10^15 bytes": (("file", "bytes"), 10**15),
    "another file": (("file",), "../../../etc/passwd"),
    "tensors that are a list": (("tensors",), []),
    "tensors of objects": (("tensors", "obs"), {"dtype": "object", "shape": [1], "sha256": ""}),
}


def _forged(content: bytes, target: Path, rng: random.Random) -> None:
    (target / DATASET.file).write_bytes(content)
    path = target / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["file"].update(bytes=len(content), sha256=tensors.sha256(content))
    path.write_text(json.dumps(manifest, indent=1))


# ------------------------------------------------------------------------------------------------- Minari's

CODE = json.dumps({"id": "Gone-v0", "entry_point": "antigravity:Gone", "kwargs": {}})
METADATA: dict[str, dict[str, Any]] = {
    "no space, and an environment to make": {"observation_space": None, "env_spec": CODE},
    "no space of actions, and an environment to make": {"action_space": None, "env_spec": CODE},
    "a space of a kind unknown": {"observation_space": json.dumps({"type": "os.system"})},
    "a space of spaces": {"observation_space": json.dumps({"type": "Dict", "subspaces": {}})},
    "a space that is no JSON": {"action_space": "__import__('os').system('true')"},
    "a space of 10^12": {"observation_space": json.dumps({"type": "Discrete", "n": 10**12, "start": 0})},
    "another format": {"data_format": "arrow"},
    "a format with a path": {"data_format": "../../x"},
    "10^15 steps": {"total_steps": 10**15},
    "episodes that are text": {"total_episodes": "os.system"},
    "fewer steps than there are": {"total_steps": 1},
}


def _metadata(changes: dict[str, Any], target: Path, rng: random.Random) -> None:
    path = target / "data/metadata.json"
    merged = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in merged.items() if value is not None}))


def _content(name: str, content: bytes, target: Path, rng: random.Random) -> None:
    (target / "data" / name).write_bytes(content)


def _hdf5(change: Callable[[Any, Any], None], target: Path, rng: random.Random) -> None:
    """change: of the first episode's group, whose rewards are gone."""
    import h5py

    with h5py.File(target / "data/main_data.hdf5", "a") as file:
        group = file["episode_0"]
        del group["rewards"]
        change(h5py, group)


def _virtual(h5py: Any, group: Any) -> None:
    layout = h5py.VirtualLayout((10,), "f4")
    layout[:] = h5py.VirtualSource(str(ELSEWHERE), "x", (10,))
    group.create_virtual_dataset("rewards", layout)


def _external(h5py: Any, group: Any) -> None:
    group.create_dataset("rewards", (10,), "u1", external=[(str(ELSEWHERE), 0, 10)])


def _pickled(h5py: Any, group: Any) -> None:
    group.create_dataset("rewards", data=[pickle.dumps(Evil()).hex()])


def _linked(link: str, h5py: Any, group: Any) -> None:
    links = {"external": h5py.ExternalLink(str(ELSEWHERE), "/x"), "soft": h5py.SoftLink("/episode_0/actions")}
    group["rewards"] = links[link]


def _huge(h5py: Any, group: Any) -> None:
    group.create_dataset("rewards", (2**40,), "f8", chunks=(1024,), compression="gzip")  # nothing is ever written


HDF5: dict[str, Callable[[Any, Any], None]] = {
    "a virtual array of another file": _virtual,
    "an array that lies in another file": _external,
    "a link to another file": partial(_linked, "external"),
    "a link": partial(_linked, "soft"),
    "pickled objects": _pickled,
    "an array of 2^40": _huge,
    "a group for an array": lambda h5py, group: group.create_group("rewards"),
    "nothing where rewards were": lambda h5py, group: None,
}

MINARI: list[Kind] = [
    *(Kind("Minari metadata", how, "minari", "import", partial(_metadata, some)) for how, some in METADATA.items()),
    *(
        Kind("Minari metadata", how, "minari", "import", partial(_content, "metadata.json", content))
        for how, content in MANIFESTS.items()
    ),
    *(Kind("Minari numbers", how, "minari", "import", partial(_hdf5, change)) for how, change in HDF5.items()),
    Kind("Minari numbers", "a pickle", "minari", "import", partial(_content, "main_data.hdf5", pickle.dumps(Evil()))),
    *(
        Kind("Minari, a link", name, "minari", "import", partial(_link, name))
        for name in ("data/metadata.json", "data/main_data.hdf5", "data")
    ),
    *(
        Kind("Minari, a pipe", name, "minari", "import", partial(_pipe, name))
        for name in ("data/metadata.json", "data/main_data.hdf5")
    ),
    # Nothing of this one is wrong but what is never looked at: it is imported, and nothing happens.
    Kind("Minari metadata", "an environment to recover", "minari", "imports", partial(_metadata, {"env_spec": CODE})),
]

KINDS: list[Kind] = [
    *(Kind("dataset", how, "data", "show", partial(_model_place, *place)) for how, place in DATA_PLACES.items()),
    *(Kind("dataset", how, "data", "fit", partial(_model_place, *place)) for how, place in DATA_PLACES.items()),
    *(Kind("dataset", how, "data", "show", partial(_model_manifest, content)) for how, content in MANIFESTS.items()),
    *(Kind("dataset", how, "data", "fit", partial(_forged, content)) for how, content in FORGED_TENSORS.items()),
    *(
        Kind(f"dataset, {what}", name, "data", "show", partial(make, name))
        for what, make in (("a link", _link), ("a link out", _link_out), ("a pipe", _pipe), ("a directory", _directory))
        for name in (DATASET.file, "manifest.json")
    ),
    *(MINARI if find_spec("h5py") else []),
]
