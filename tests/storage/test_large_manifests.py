"""What is written can be read: manifests stay below the limits of their reader."""

import numpy as np
import pytest

from sbeed.storage import checkpoints, tensors
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, Snapshot, steps_of
from sbeed.storage.tensor_folder import MODEL


def _snapshot(step, held):
    rows = lambda n: {"obs": np.arange(step - n, step, dtype=np.float32)[None]}
    return Snapshot(step, {}, {"V": np.float32(step)}, held, rows)


def test_a_replay_of_many_parts_becomes_one(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MOST_PARTS", 4)
    store, counts = Checkpoints(tmp_path), []
    for step in range(1, 21):
        store.save(_snapshot(step, min(step, 10)))
        found = Checkpoint(tmp_path, step)
        counts.append(len(found.parts))
        newest = found.newest({"obs": np.zeros(1, np.float32)})["obs"]
        np.testing.assert_array_equal(newest, [np.arange(step - found.held, step)])
    assert max(counts) == 4
    assert counts[:6] == [1, 2, 3, 4, 1, 2]
    # A writer that goes on finds the parts as they are.
    Checkpoints(tmp_path, resumed=20).save(_snapshot(21, 10))
    assert Checkpoint(tmp_path, 21).step == 21


def test_ten_thousand_checkpoints_of_a_large_replay_stay_readable(tmp_path, monkeypatch):
    """Without a limit on the parts, the manifest of the last one had 16 MB and was refused."""
    monkeypatch.setattr(checkpoints, "sync", lambda path: None)
    described = {"bytes": 1, "sha256": "0" * 64, "tensors": {name: _kind() for name in "abcdef"}}
    monkeypatch.setattr(tensors, "write_tensors", lambda path, named: path.write_bytes(b"0") and described)
    store = Checkpoints(tmp_path)
    for step in range(1, 300):
        store.save(_snapshot(step, step))
    content = (tmp_path / "checkpoints" / f"step_{steps_of(tmp_path)[-1]:09d}" / "manifest.json").read_bytes()
    assert len(content) < 2**20
    assert len(Checkpoint(tmp_path, 299).parts) <= checkpoints.MOST_PARTS


def _kind():
    return {"dtype": "float32", "shape": [1, 1, 17], "sha256": "0" * 64}


def test_a_manifest_that_could_not_be_read_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"manifest\.json' is not written: it has more than 524,288 values"):
        MODEL.save(tmp_path / "model", {"x": np.zeros(1)}, {"numbers": [0] * 2**19})
    assert not (tmp_path / "model").exists()
    with pytest.raises(ValueError, match="bytes, more than 16,777,216"):
        MODEL.save(tmp_path / "model", {"x": np.zeros(1)}, {"text": "x" * 2**24})
    assert not list(tmp_path.iterdir())
