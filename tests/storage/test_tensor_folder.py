"""A saved model comes back bit for bit, or not at all and with one clear line."""

import json
import os
import pickle
import shutil
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.models.nets import MLP
from sbeed.storage.tensor_folder import MODEL
from sbeed.storage.tensors import MANIFEST, DamagedModel
from tests.manifests import forge


class State(NamedTuple):
    pi: MLP
    count: jax.Array
    opt: dict[str, tuple[jax.Array, ...]]


class Reordered(NamedTuple):
    """The same leaves under the same names, declared in another order."""

    opt: dict[str, tuple[jax.Array, ...]]
    count: jax.Array
    pi: MLP


def _state(width=3):
    net = MLP((2, width, 1), key=jax.random.key(0))
    moments = (jnp.arange(4, dtype=jnp.float32), jnp.array([True, False]))
    return State(net, jnp.array(7, jnp.int32), {"V": moments})


@pytest.fixture
def model(tmp_path):
    MODEL.save(tmp_path / "model", _state(), {"agent": "test", "step": 5})
    return tmp_path / "model"


def _same(a, b):
    return all(x.dtype == y.dtype and x.shape == y.shape and (np.asarray(x) == np.asarray(y)).all()
               for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))  # fmt: skip


def test_a_model_comes_back_bit_for_bit(model):
    like = eqx.filter_eval_shape(_state)
    assert _same(MODEL.load(model, like), _state())
    manifest = MODEL.read_manifest(model)
    assert (manifest["agent"], manifest["step"], manifest["schema"]) == ("test", 5, 2)
    assert manifest["versions"]["sbeed"]


def test_names_lead_to_the_leaves(model):
    names = set(MODEL.read_manifest(model)["tensors"])
    assert {"count", "opt/V/0", "opt/V/1", "pi/weights/0"} <= names


def test_fields_may_change_places(model):
    like = Reordered(*reversed(_state()))
    loaded = MODEL.load(model, like)
    assert isinstance(loaded, Reordered)
    assert _same(loaded.pi, _state().pi)
    assert loaded.count == 7


def test_one_flipped_bit_is_noticed(model):
    path = model / MODEL.file
    for at, complaint in ((0, "cannot be read"), (-1, "tensor ")):
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)
        with pytest.raises(DamagedModel, match=f"not what was saved: .*{complaint}"):
            MODEL.load(model, _state())
        content[at] ^= 1
        path.write_bytes(content)
    MODEL.load(model, _state())


def test_a_file_cut_short_is_noticed_before_it_is_read(model):
    path = model / MODEL.file
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedModel, match="bytes"):
        MODEL.load(model, _state())


def test_tensors_under_a_forged_manifest_are_noticed(model):
    manifest = json.loads((model / MANIFEST).read_text())
    tensors = manifest["tensors"]
    tensors["opt/V/0"]["sha256"] = "0" * 64
    forge(model / MANIFEST, **manifest)
    with pytest.raises(DamagedModel, match="opt/V/0"):
        MODEL.load(model, _state())


def test_another_shape_names_the_tensor(model):
    with pytest.raises(DamagedModel, match=r"pi/biases/0 is float32\[3\], but its config asks for float32\[4\]"):
        MODEL.load(model, _state(width=4))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"schema": 1}',
        b'{"schema": 3}',
        b'{"schema": true}',
        pickle.dumps({"schema": 1}),
        b"[" * 100_000,
    ],
)
def test_a_manifest_that_is_none(model, content):
    (model / MANIFEST).write_bytes(content)
    with pytest.raises(DamagedModel, match="manifest"):
        MODEL.load(model, _state())


def test_tensors_that_are_not_described(model):
    for junk in (None, [1], "x"):
        forge(model / MANIFEST, tensors=junk)
        with pytest.raises(DamagedModel, match="does not describe its tensors"):
            MODEL.load(model, _state())


def test_no_model_at_all(tmp_path):
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        with pytest.raises(DamagedModel, match="not a saved model"):
            MODEL.load(tmp_path / name, _state())


def test_a_model_is_replaced_and_nothing_else_is(model):
    MODEL.save(model, _state(), {"agent": "test", "step": 6})
    assert MODEL.read_manifest(model)["step"] == 6
    assert [path.name for path in model.parent.iterdir()] == ["model"]
    (model / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not a saved model"):
        MODEL.save(model, _state(), {})
    assert (model / "notes.txt").read_text() == "mine"


def test_a_link_stays_one_and_what_a_killed_process_left_is_no_hindrance(model):
    link = model.parent / "link"
    link.symlink_to(model)
    (model.parent / f".model.new-{os.getpid()}").mkdir()
    MODEL.save(link, _state(), {"agent": "test", "step": 6})
    assert link.is_symlink()
    assert MODEL.read_manifest(model)["step"] == 6
    assert sorted(path.name for path in model.parent.iterdir()) == ["link", "model"]


def test_a_failed_save_leaves_the_old_model(model):
    with pytest.raises(ValueError, match="JSON"):
        MODEL.save(model, _state(), {"agent": "test", "step": float("nan")})
    assert [path.name for path in model.parent.iterdir()] == ["model"]
    assert _same(MODEL.load(model, _state()), _state())
    shutil.rmtree(model)
    with pytest.raises(ValueError, match="JSON"):
        MODEL.save(model, _state(), {"step": float("nan")})
    assert not model.exists()


def test_no_flipped_bit_of_a_manifest_is_silent(tmp_path):
    """Every fifth is tried, so that each byte is, and each place in a byte."""
    MODEL.save(tmp_path / "model", {"x": np.zeros(1, np.float32)}, {"agent": "test", "high": 2.0})
    path = tmp_path / "model" / MANIFEST
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 5):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(DamagedModel):
            MODEL.read_manifest(tmp_path / "model")


def test_a_manifest_without_a_seal_is_one_that_was_written_before_there_were_seals(model):
    manifest = json.loads((model / MANIFEST).read_text())
    del manifest["sha256"]
    (model / MANIFEST).write_text(json.dumps(manifest, indent=1))
    assert MODEL.read_manifest(model)["step"] == 5
    (model / MANIFEST).write_text(json.dumps({**manifest, "sha257": "0" * 64}, indent=1))
    with pytest.raises(DamagedModel, match="not what was saved"):
        MODEL.read_manifest(model)
