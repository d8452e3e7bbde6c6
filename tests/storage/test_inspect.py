"""What files hold, without jax, and without anything in them being believed."""

import json
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from sbeed import cli
from sbeed.storage.checkpoints import Checkpoints, Snapshot
from sbeed.storage.inspect import inspect, is_whole
from sbeed.storage.run_dir import RunDir
from sbeed.storage.safe_open import read_safely
from sbeed.storage.tensor_folder import MODEL
from sbeed.storage.tensors import DamagedModel
from tests.manifests import forge

STATE = {"V": np.zeros((3, 2), np.float32), "count": np.int32(4)}
ABOUT = {"agent": "sbeed", "preset": "default", "seed": 0, "steps": 8, "env": {"name": "[red]\x1b[2J"}, "config": {}}
RUN = {"agent": "sbeed", "env": {"name": "Pendulum-v1"}, "seeds": [0], "config": {"lam": 0.1}}


def _snapshot(step):
    return Snapshot(step, {"run": RUN}, STATE, step, lambda n: {"reward": np.zeros((1, n), np.float32)})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    with RunDir(path) as run:
        run.begin({"env": "Pendulum-v1", "lam": 0.1})
        run.open([0])
        run.append([{"seed": 0, "step": 8, "return": 1.0}])
    store = Checkpoints(path)
    for step in (4, 8):
        store.save(_snapshot(step))
    MODEL.save(path / "model", STATE, ABOUT)
    return path


@pytest.fixture
def run(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "run"))


def test_a_model(run):
    found = inspect(run / "model")
    assert (found["kind"], found["agent"], found["step"]) == ("model", "sbeed", 8)
    assert [(one["name"], one["dtype"], one["shape"], one["bytes"]) for one in found["tensors"]] == [
        ("V", "float32", [3, 2], 24),
        ("count", "int32", [], 4),
    ]
    (file,) = found["files"]
    assert (file["state"], file["bytes"]) == ("whole", (run / "model" / "model.safetensors").stat().st_size)
    assert is_whole(found)


def test_a_checkpoint(run):
    found = inspect(run / "checkpoints" / "step_000000008")
    assert (found["kind"], found["step"], found["transitions"], found["seeds"]) == ("checkpoint", 8, 8, [0])
    assert found["config"] == {"lam": 0.1}
    assert [one["name"][:11] for one in found["files"]] == ["state.safet", "part_000000", "part_000000"]
    assert is_whole(found)


def test_a_run(run):
    found = inspect(run)
    assert (found["kind"], found["rows"], found["step"]) == ("run", 1, 8)
    assert [one["step"] for one in found["checkpoints"]] == [4, 8]
    assert len(found["models"]) == 1
    assert is_whole(found)


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("model/model.safetensors", "SHA-256 differs"),
        ("checkpoints/step_000000004/state.safetensors", "SHA-256 differs"),
        ("replay/part_000000000_000000004.safetensors", "SHA-256 differs"),
        ("checkpoints/step_000000008/manifest.json", "is not what was saved"),
    ],
)
def test_what_is_not_what_was_saved_is_said(capsys, run, name, state):
    content = bytearray((run / name).read_bytes())
    content[-4] ^= 1
    (run / name).write_bytes(content)
    assert not is_whole(inspect(run))
    with pytest.raises(SystemExit) as stop:
        cli.main(["inspect", str(run), "--json"])
    assert stop.value.code == 1
    assert state in capsys.readouterr().out
    (run / name).unlink()
    assert not is_whole(inspect(run)) or name.endswith("manifest.json")


def test_a_table_of_it_leaves_the_terminal_alone(capsys, run):
    for path in (run, run / "model", run / "checkpoints" / "step_000000008"):
        with pytest.raises(SystemExit) as stop:
            cli.main(["inspect", str(path)])
        out = capsys.readouterr().out
        assert stop.value.code == 0
        assert "whole" in out
        assert "\x1b" not in out
    assert r"[red]\u001b[2J" in json.dumps(inspect(run / "model"))


@pytest.mark.parametrize("change", [{"env": 3}, {"tensors": []}, {"tensors": {"V": {"shape": "x"}}}, {"file": None}])
def test_a_manifest_that_is_none_is_one_line(run, change):
    path = run / "model" / "manifest.json"
    forge(path, **change)
    with pytest.raises(DamagedModel, match="manifest") as error:
        inspect(run / "model")
    assert "\n" not in str(error.value)


def test_nothing_there(capsys, tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SystemExit) as stop:
            cli.main(["inspect", str(path)])
        assert stop.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_looking_needs_no_jax(run):
    probe = f"import sys\nfrom sbeed.storage.inspect import inspect\ninspect({str(run)!r})\n"
    subprocess.run([sys.executable, "-c", probe + "assert 'jax' not in sys.modules"], check=True)


@pytest.mark.parametrize(
    "one",
    [
        {"dtype": "float32", "shape": [10**300] * 4000},
        {"dtype": "float32", "shape": [10**4000] * 4},
        {"dtype": "float32", "shape": [1] * 100_000},
        {"dtype": "(100000,100000)f8", "shape": [1]},
        {"dtype": ",".join(["f8"] * 10_000), "shape": [1]},
        {"dtype": "float32", "shape": [-1]},
        {"dtype": "float32", "shape": [True]},
    ],
    ids=["product", "digits", "axes", "subarrays", "fields", "negative", "truth"],
)
def test_a_bomb_is_refused_before_it_is_counted(run, one):
    forge(run / "model" / "manifest.json", tensors={"V": {**one, "sha256": ""}})
    _refused_at_little_cost(run / "model")


def test_a_manifest_of_too_many_values_is_refused_before_it_is_parsed(run):
    (run / "model" / "manifest.json").write_bytes(b'{"schema": 2, "a": [' + b"[]," * 5_000_000 + b"[]]}")
    _refused_at_little_cost(run / "model")


def _refused_at_little_cost(path):
    begin = time.process_time()
    with pytest.raises(DamagedModel, match="manifest") as error:
        inspect(path)
    seconds = time.process_time() - begin
    tracemalloc.start()
    with pytest.raises(DamagedModel):
        inspect(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(str(error.value)) < 500
    assert seconds < 0.5
    assert peak < 100e6


def test_of_a_small_file_no_more_is_held_than_it_has(tmp_path):
    (tmp_path / "small").write_bytes(b"x" * 1800)
    tracemalloc.start()
    assert len(read_safely(tmp_path / "small", 2**30)) == 1800
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000
