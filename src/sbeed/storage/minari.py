"""Read and write Minari's datasets without Minari, so that nothing that a file names is imported, created or run.

The `metadata.json` of a Minari dataset can name an environment and the code that makes it. Minari makes it to learn the
spaces if they are not in the file. Here the spaces must be in the file, as plain data of a closed list of kinds, and
the environment's specification is not read. Of HDF5 only plain numbers inside the file are read: no links to other
files, no virtual or external data, only the common filters, and no more bytes than a cap.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from sbeed.data.dataset import MOST, BadData, Dataset, check_spaces, from_arrays
from sbeed.storage.datasets import read_space
from sbeed.storage.safe_open import open_safely, read_safely
from sbeed.storage.safe_write import write_file
from sbeed.storage.tensor_folder import replacing
from sbeed.storage.tensors import DamagedModel

DATA, METADATA, NUMBERS = "data", "metadata.json", "main_data.hdf5"
FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
_LARGEST_METADATA, _MOST_BYTES = 2**24, 2**33
_FILTERS = {1, 2, 3, 32000}  # deflate, shuffle, checksums, LZF: all others may be loaded from a path
_VERSION = "0.5.3"  # of Minari, whose layout this is


def read(path: Path) -> Dataset:
    """Read a dataset from Minari's directory or the `data` inside it; damage is a one-line DamagedModel or BadData."""
    place = Path(path) / DATA if (Path(path) / DATA).is_dir() else Path(path)
    for one in (place, place / METADATA, place / NUMBERS):
        if one.is_symlink():
            raise DamagedModel(f"'{one}' is a link, which may lead anywhere: it is not followed")
    with _complaints(place / METADATA):
        about = json.loads(read_safely(place / METADATA, _LARGEST_METADATA).decode())
        seen, done = _space(about, "observation_space"), _space(about, "action_space")
        check_spaces(seen, done)
        if about.get("data_format", "hdf5") != "hdf5":
            raise ValueError(f"data_format: only hdf5 is read, got {about['data_format']!r}")
        episodes, steps = (_count(about, key) for key in ("total_episodes", "total_steps"))
        name = str(about.get("dataset_id", "minari"))[:200]
    with _complaints(place / NUMBERS):
        columns = _columns(place / NUMBERS, episodes, steps)
    given: dict[str, Any] = {"observation_space": seen, "action_space": done, "origin": {"minari": name}}
    return from_arrays(columns, **given, name=name if name.isprintable() else "minari")


def write(path: Path, dataset: Dataset) -> None:
    """Write Minari's directory; `minari.load_dataset` finds it if it lies at its `dataset_id` below Minari's root."""
    import h5py

    starts, ends = dataset.starts, np.append(dataset.starts[1:], len(dataset))
    about = {
        "dataset_id": f"sbeed/{re.sub(r'[^a-z0-9]+', '-', dataset.name.lower()).strip('-') or 'data'}-v0",
        "total_episodes": len(starts),
        "total_steps": len(dataset),
        "data_format": "hdf5",
        "observation_space": json.dumps(_told(dataset.observation_space)),
        "action_space": json.dumps(_told(dataset.action_space)),
        "minari_version": _VERSION,
    }
    with replacing(path, {DATA}, "a Minari dataset") as new:
        (new / DATA).mkdir()
        with h5py.File(new / DATA / NUMBERS, "w") as file:
            for i, (first, end) in enumerate(zip(starts, ends)):
                part = dataset.data._replace(**{key: x[first:end] for key, x in dataset.data._asdict().items()})
                group = file.create_group(f"episode_{i}")
                group.attrs.update({"id": i, "total_steps": int(end - first)})
                observations = np.concatenate([np.asarray(part.obs), np.asarray(part.next_obs[-1:])])
                truncations = np.asarray(part.last) & ~np.asarray(part.terminated)
                columns = (observations, part.action, part.reward, part.terminated, truncations)
                for key, x in zip(FIELDS, columns):
                    group.create_dataset(key, data=np.asarray(x))
        write_file(new / DATA / METADATA, json.dumps(about, indent=1).encode())


def _columns(path: Path, episodes: int, steps: int) -> dict[str, np.ndarray]:
    """Read the fields of a Transition, one episode after the other."""
    import h5py

    parts: list[dict[str, np.ndarray]] = []
    with open_safely(path) as handle, h5py.File(handle, "r") as file:
        room = min(steps, MOST)
        for i in range(episodes):
            group = _member(h5py, file, f"episode_{i}", h5py.Group)
            found = {key: _numbers(h5py, group, key, room + 1, i) for key in FIELDS}
            count = len(found["rewards"])
            lengths = {key: len(x) - (key == "observations") for key, x in found.items()}
            for key, length in lengths.items():
                if length != count or count == 0:
                    raise ValueError(f"episode {i}, step {min(length, count)}: {key} does not have {count} steps")
            room -= count
            if room < 0:
                raise ValueError(f"episode {i}: there are more steps than the {steps} that the metadata promise")
            terminated = np.asarray(found["terminations"], bool)
            last = terminated | np.asarray(found["truncations"], bool)
            last[-1] = True  # an episode that was cut off without a mark
            observations = found["observations"]
            parts.append(
                {
                    **{"obs": observations[:-1], "action": found["actions"], "reward": found["rewards"]},
                    **{"next_obs": observations[1:], "terminated": terminated, "last": last},
                }
            )
    if not parts:
        raise ValueError("there are no episodes")
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _numbers(h5py: Any, group: Any, key: str, most: int, episode: int) -> np.ndarray:
    """Read a field of an episode, after its kind, filters and shape have been checked."""
    where = f"episode {episode}: {key}"
    found = _member(h5py, group, key, h5py.Dataset)
    if found.is_virtual or found.external:
        raise ValueError(f"{where} lies outside the file")
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{where} is not made of numbers but of {found.dtype}")
    properties = found.id.get_create_plist()
    if not {properties.get_filter(i)[0] for i in range(properties.get_nfilters())} <= _FILTERS:
        raise ValueError(f"{where} is packed in a way that is not read here")
    if not 1 <= found.ndim <= 2 or found.shape[0] > most or math.prod(found.shape) * found.dtype.itemsize > _MOST_BYTES:
        raise ValueError(f"{where} has the shape {list(found.shape)}, which it cannot have")
    return found[()]


def _member(h5py: Any, group: Any, name: str, kind: type) -> Any:
    """The member of that name and kind, if it is in the file itself."""
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise ValueError(f"{name} is missing, or a link that may lead anywhere")
    found = group[name]
    if not isinstance(found, kind):
        raise ValueError(f"{name} is not a {kind.__name__.lower()}")
    return found


def _space(about: Any, key: str) -> spaces.Space:
    if not isinstance(about, dict) or not isinstance(about.get(key), str):
        raise ValueError(f"{key} is missing: Minari would make the environment that the file names, and we never do")
    told = json.loads(about[key])
    if not isinstance(told, Mapping) or told.get("type") not in ("Box", "Discrete"):
        raise ValueError(f"{key}: only Box and Discrete are read")
    if told["type"] == "Discrete":
        return read_space({"kind": "discrete", "n": told["n"], "start": told.get("start", 0)})
    bounds = {side: [x if math.isfinite(x) else None for x in told[side]] for side in ("low", "high")}
    return read_space({"kind": "box", "shape": told["shape"], "dtype": told["dtype"], **bounds})


def _told(space: spaces.Space) -> dict[str, Any]:
    """The space as Minari writes it."""
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    assert isinstance(space, spaces.Box)
    shape = {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape)}
    return {**shape, "low": space.low.tolist(), "high": space.high.tolist()}


def _count(about: Mapping[str, Any], key: str) -> int:
    value = about[key]
    if not (isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MOST):
        raise ValueError(f"{key}: {value!r} is no such number")
    return value


@contextmanager
def _complaints(path: Path) -> Iterator[None]:
    try:
        yield
    except BadData:
        raise
    except (ValueError, KeyError, TypeError, OSError, RuntimeError, RecursionError, OverflowError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise DamagedModel(f"'{path}' is not a Minari dataset that can be read: {reason}") from None
