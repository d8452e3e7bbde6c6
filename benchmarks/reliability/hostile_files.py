"""What a file could hold that was made to do harm, from golden files."""

import io
import json
import os
import pickle
import random
import shutil
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import yaml

from sbeed.storage import tensors
from sbeed.storage.checkpoints import place_of, steps_of


class Kind(NamedTuple):
    what: str  # file
    how: str
    target: str  # which golden directory is copied: "run" or "model"
    command: str  # "run", "model", "film" or "train": what is done with it
    make: Callable[[Path, random.Random], None]


class Evil:
    """Unpickled, it would run a command."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


# ------------------------------------------------------------------------------------------------- settings

TEXTS: dict[str, bytes] = {
    "a tag that calls": b"env: !!python/object/apply:os.system ['true']\n",
    "a tag that makes an object": b"env: !!python/object/new:subprocess.Popen [['true']]\n",
    "a tag that names a function": b"env: !!python/name:os.system\n",
    "a tag that imports": b"env: !!python/module:antigravity\n",
    "a billion laughs": b"a: &a [x, x]\n"
    + b"".join(b"%c: &%c [*%c, *%c]\n" % (c, c, c - 1, c - 1) for c in range(98, 122)),
    "an alias of itself": b"env: &a [*a]\n",
    "a merge key": b"a: &a {env: Pendulum-v1}\n<<: *a\n",
    "deep nesting": b"env: " + b"[" * 50_000,
    "deep indents": b"".join(b" " * i + b"a:\n" for i in range(900)),
    "no text": bytes(range(128, 256)),
    "zeros": bytes(4096),
    "too long": b"env: " + b"x" * 2**21,
    "a list": b"- env\n",
    "a number": b"7\n",
    "two documents": b"env: Pendulum-v1\n---\nenv: os:system\n",
    "keys that are no names": b"{1: 2, [3]: 4}\n",
    "nothing": b"",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "an environment of os": {"env": "os:system"},
    "an environment that is imported": {"env": "antigravity:Gone-v0"},
    "an environment with a path": {"env": "../../secret:Gone-v0"},
    "an unknown agent": {"agent": "os.system"},
    "an agent that is a list": {"agent": ["sbeed"]},
    "an unknown preset": {"preset": "../../secret"},
    "an unknown setting": {"__class__": "os"},
    "no whole number": {"steps": "1; import os"},
    "no finite number": {"lam": float("nan")},
    "a size beyond all memory": {"replay_capacity": 10**18},
    "a negative size": {"replay_capacity": -1},
    "layers that are no numbers": {"hidden": ["os.system"]},
    "a seed below 0": {"seed": -1},
    "more agents than numbers": {"seeds": 10**12},
}


def _text(content: bytes, target: Path, rng: random.Random) -> None:
    (target / "config.yaml").write_bytes(content)


def _settings(changes: dict[str, Any], target: Path, rng: random.Random) -> None:
    path = target / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


# ------------------------------------------------------------------------------------------------- no plain files

ELSEWHERE = Path("/etc/hostname")


def _link(name: str, target: Path, rng: random.Random) -> None:
    path = _inside(target, name)
    to = path.parent / f"elsewhere {path.name}" if rng.random() < 0.5 else path.parent.parent / f"{path.name} elsewhere"
    path.rename(to)
    path.symlink_to(to)


def _link_out(name: str, target: Path, rng: random.Random) -> None:
    path = _inside(target, name)
    path.unlink()
    path.symlink_to(ELSEWHERE)


def _pipe(name: str, target: Path, rng: random.Random) -> None:
    path = _inside(target, name)
    path.unlink()
    os.mkfifo(path)


def _directory(name: str, target: Path, rng: random.Random) -> None:
    path = _inside(target, name)
    path.unlink()
    path.mkdir()


def _inside(target: Path, name: str) -> Path:
    """name: with STEP for the newest checkpoint's, and PART for a part of the replay."""
    step = place_of(target, (steps_of(target) or [0])[-1]).name
    part = next((path.name for path in (target / "replay").glob("part*")), "")
    return target / name.replace("STEP", step).replace("PART", part)


# ------------------------------------------------------------------------------------------------- tensors


def _header(**changes: Any) -> bytes:
    one = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}
    text = json.dumps({"x": one}).encode()
    return struct.pack("<Q", len(text)) + text + bytes(4)


def _npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.array([Evil()], object))
    return file.getvalue()


FORGED_TENSORS: dict[str, bytes] = {
    "a pickle": pickle.dumps(Evil()),
    "pickled arrays": _npz(),
    "a header of 2^60 bytes": struct.pack("<Q", 2**60) + b"{}",
    "a header of -1 bytes": struct.pack("<q", -1) + b"{}",
    "a tensor of 2^60 numbers": _header(shape=[2**60]),
    "a tensor of 2^80 numbers": _header(shape=[2**40, 2**40]),
    "a shape below 0": _header(shape=[-1]),
    "offsets beyond the file": _header(data_offsets=[0, 2**62]),
    "offsets backwards": _header(data_offsets=[4, 0]),
    "an unknown type": _header(dtype="OBJ"),
    "a deep header": struct.pack("<Q", 40_000) + b"[" * 40_000,
    "a header that is no text": struct.pack("<Q", 64) + bytes(range(128, 192)),
    "nothing": b"",
}


def _forged_state(content: bytes, target: Path, rng: random.Random) -> None:
    """The manifest says of it what it is."""
    path = _inside(target, "checkpoints/STEP")
    (path / "state.safetensors").write_bytes(content)

    def describe(manifest: dict[str, Any]) -> None:
        manifest["file"].update(bytes=len(content), sha256=tensors.sha256(content))

    _forge(path / "manifest.json", describe)


def _forged_model(content: bytes, target: Path, rng: random.Random) -> None:
    (target / "model.safetensors").write_bytes(content)
    path = target / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["file"].update(bytes=len(content), sha256=tensors.sha256(content))
    path.write_text(json.dumps(manifest, indent=1))


# ------------------------------------------------------------------------------------------------- manifests

MANIFESTS: dict[str, bytes] = {
    "no text": bytes(range(128, 256)),
    "deep nesting": b"[" * 200_000,
    "deep objects": b'{"schema": 1, "a": ' + b'{"a":' * 100_000,
    "a number of 10,000 digits": b'{"schema": 1' + b"0" * 10_000 + b"}",
    "NaN": b'{"schema": NaN}',
    "a list": b"[1]",
    "zeros": bytes(1000),
    "nothing": b"",
    "YAML": b"schema: !!python/object/apply:os.system ['true']\n",
    "a pickle": pickle.dumps(Evil()),
}
PLACES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "a part called ..": (("parts", 0), {"first": "../../../x", "last": 16, "file": {}}),
    "a part with a name of its own": (("parts", 0, "name"), "/etc/passwd"),
    "parts that are none": (("parts",), "all"),
    "a part of 2^60 transitions": (("parts", -1, "last"), 2**60),
    "a replay of 10^12": (("held",), 10**12),
    "a step of 10^9": (("step",), 10**9),
    "a file of 10^15 bytes": (("file", "bytes"), 10**15),
    "tensors of objects": (("file", "tensors", "states/0/V/weights/0"), {"dtype": "object", "shape": [1]}),
    "tensors that are a list": (("file", "tensors"), []),
    "no run": (("about", "run"), None),
    "another agent": (("about", "run", "agent"), "os.system"),
    "counters of 10^30": (("about", "standing", "written"), 10**30),
    "counters that are text": (("about", "standing", "episodes"), ["__import__('os')"]),
    "an unknown counter": (("about", "standing", "__class__"), 1),
    "an episode of 10^15 actions": (("about", "actors", 0, "taken"), 10**15),
    "actions of objects": (("about", "actors", 0, "type"), "object"),
    "a random stream below 0": (("about", "actors", 0, "random"), [-1, 0, 0, 0]),
    "a random stream of two": (("about", "actors", 0, "random"), [1, 2]),
    "an episode below 0": (("about", "actors", 0, "episodes"), -5),
    "more rows than there are": (("about", "past", "rows"), 2**31),
    "a past that is text": (("about", "past"), "os.system"),
}
MODEL_PLACES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "an environment of os": (("env", "name"), "os:system"),
    "an environment that is imported": (("env", "name"), "antigravity:Gone-v0"),
    "an environment that is a list": (("env", "name"), ["os"]),
    "an unknown agent": (("agent",), "os.system"),
    "an agent that is a list": (("agent",), [["os"]]),
    "an unknown setting": (("config", "__class__"), "os"),
    "layers beyond all memory": (("config", "hidden"), [10**15]),
    "an observation of 10^12": (("env", "spec", "observation_size"), 10**12),
    "an unknown space": (("env", "observation_space"), {"kind": "os.system"}),
    "a space of 10^12": (("env", "observation_space", "shape"), [10**12]),
    "a seed of 10^40": (("seed",), 10**40),
    "steps below 0": (("steps",), -1),
    "a file of 10^15 bytes": (("file", "bytes"), 10**15),
    "tensors of 2^60": (("tensors",), {"pi": {"dtype": "float32", "shape": [2**60], "sha256": ""}}),
}
FILMED = ("an environment of os", "an environment that is imported")


def _manifest(content: bytes, target: Path, rng: random.Random) -> None:
    _inside(target, "checkpoints/STEP/manifest.json").write_bytes(content)


def _model_manifest(content: bytes, target: Path, rng: random.Random) -> None:
    (target / "manifest.json").write_bytes(content)


def _place(where: tuple[Any, ...], value: Any, target: Path, rng: random.Random) -> None:
    _forge(_inside(target, "checkpoints/STEP/manifest.json"), lambda manifest: _set(manifest, where, value))


def _model_place(where: tuple[Any, ...], value: Any, target: Path, rng: random.Random) -> None:
    path = target / "manifest.json"
    manifest = json.loads(path.read_text())
    _set(manifest, where, value)
    path.write_text(json.dumps(manifest, indent=1))


def _forge(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads(path.read_text())
    change(manifest)
    del manifest[tensors.SEAL]
    tensors.write_manifest(path.parent, manifest)


def _set(tree: Any, where: tuple[Any, ...], value: Any) -> None:
    for name in where[:-1]:
        tree = tree[name]
    tree[where[-1]] = value


# ------------------------------------------------------------------------------------------------- rows

ROWS: dict[str, bytes] = {
    "no text": bytes(range(128, 256)) + b"\n",
    "deep nesting": b"[" * 100_000 + b"\n",
    "no row": b"7\n",
    "code": b"__import__('os').system('true')\n",
    "a pickle": pickle.dumps(Evil()) + b"\n",
    "a number of 10,000 digits": b'{"step": ' + b"1" * 10_000 + b"}\n",
}


def _rows(content: bytes, target: Path, rng: random.Random) -> None:
    # As long as the checkpoint expects, so that nothing else is wrong.
    path = target / "metrics.jsonl"
    path.write_bytes(content + path.read_bytes())


def _no_replay(target: Path, rng: random.Random) -> None:
    shutil.rmtree(target / "replay")
    (target / "replay").symlink_to(ELSEWHERE.parent)


# ------------------------------------------------------------------------------------------------- all of them

STATE = "checkpoints/STEP/state.safetensors"

KINDS: list[Kind] = [
    *(Kind("config.yaml", how, "run", "run", partial(_text, content)) for how, content in TEXTS.items()),
    *(Kind("config.yaml", how, "run", "run", partial(_settings, some)) for how, some in SETTINGS.items()),
    *(Kind("--config", how, "run", "train", partial(_text, content)) for how, content in TEXTS.items()),
    *(Kind("--config", how, "run", "train", partial(_settings, some)) for how, some in SETTINGS.items()),
    *(Kind("state", how, "run", "run", partial(_forged_state, content)) for how, content in FORGED_TENSORS.items()),
    *(Kind("model", how, "model", "model", partial(_forged_model, content)) for how, content in FORGED_TENSORS.items()),
    *(Kind("manifest", how, "run", "run", partial(_manifest, content)) for how, content in MANIFESTS.items()),
    *(Kind("manifest", how, "run", "run", partial(_place, *place)) for how, place in PLACES.items()),
    *(Kind("model", how, "model", "model", partial(_model_manifest, content)) for how, content in MANIFESTS.items()),
    *(Kind("model", how, "model", "model", partial(_model_place, *place)) for how, place in MODEL_PLACES.items()),
    *(Kind("rows", how, "run", "run", partial(_rows, content)) for how, content in ROWS.items()),
    *(
        Kind("a link", name, "run", "run", partial(_link, name))
        for name in (STATE, "checkpoints/STEP", "checkpoints", "replay", "replay/PART", "config.yaml", "metrics.jsonl")
    ),
    *(Kind("a link out", name, "run", "run", partial(_link_out, name)) for name in (STATE, "config.yaml")),
    Kind("a link out", "replay", "run", "run", _no_replay),
    *(Kind("a pipe", name, "run", "run", partial(_pipe, name)) for name in (STATE, "metrics.jsonl", "config.yaml")),
    *(Kind("a directory", name, "run", "run", partial(_directory, name)) for name in (STATE, "config.yaml")),
    *(Kind("a film", how, "model", "film", partial(_model_place, *MODEL_PLACES[how])) for how in FILMED),
    Kind("a link", "model.safetensors", "model", "model", partial(_link, "model.safetensors")),
    Kind("a pipe", "model.safetensors", "model", "model", partial(_pipe, "model.safetensors")),
    Kind("a pipe", "manifest.json", "model", "model", partial(_pipe, "manifest.json")),
]
