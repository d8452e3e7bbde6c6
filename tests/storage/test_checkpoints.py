"""Checkpoints: whole or not there, every byte checked, only what is new written; and a directory with one owner."""

import json
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import jax
import numpy as np
import pytest

from sbeed.storage import checkpoints, tensors
from sbeed.storage.checkpoints import Checkpoint, Checkpoints, Snapshot, steps_of
from sbeed.storage.lock import locked
from sbeed.storage.tensors import DamagedModel
from tests.manifests import forge


class Rows(NamedTuple):
    obs: np.ndarray
    last: np.ndarray


MEMBERS, CAPACITY = 2, 10
LIKE = {"V": np.zeros(3, np.float32), "count": np.int32(0)}
ROW_LIKE = Rows(np.zeros((MEMBERS, 2), np.float32), np.zeros(MEMBERS, bool))


def _history(first, last):
    """Transitions that say which they are."""
    number = np.arange(first, last, dtype=np.float32)[None, :, None]
    obs = number + np.array([0, 0.5], np.float32)[:, None, None] + np.zeros(2, np.float32)
    return Rows(obs, obs[:, :, 0] % 3 == 0)


def _snapshot(step, held=None, state=None):
    held = min(step, CAPACITY) if held is None else held
    state = state or {"V": np.full(3, step, np.float32), "count": np.int32(step)}
    return Snapshot(step, {"step": step, "recent": [0.1, 1 / 3]}, state, held, lambda n: _history(step - n, step))


def _parts(run):
    return sorted(path.name[5:-12] for path in (run / "replay").iterdir())


def _same(tree, other):
    jax.tree.map(np.testing.assert_array_equal, tree, other)


def _whole(run, step, held=None):
    """That checkpoint, after everything in it has been compared with what was to be saved."""
    found, saved = Checkpoint(run, step), _snapshot(step, held)
    assert (found.about, found.held) == (saved.about, saved.held)
    _same(found.state(LIKE), saved.state)
    _same(found.newest(ROW_LIKE), _history(step - saved.held, step))
    return found


def test_a_checkpoint_comes_back_and_writes_only_what_is_new(tmp_path):
    store = Checkpoints(tmp_path)
    for step in (4, 7, 12, 15):
        store.save(_snapshot(step))
    # A replay of 10: at 12 it holds 2..11, at 15 5..14. The part 0..3 is needed by the checkpoint at 12 alone.
    assert steps_of(tmp_path) == [12, 15]
    parts = ["000000000_000000004", "000000004_000000007", "000000007_000000012", "000000012_000000015"]
    assert _parts(tmp_path) == parts
    for step in (12, 15):
        _whole(tmp_path, step)
    store.save(_snapshot(30))
    assert _parts(tmp_path) == [*parts[1:], "000000020_000000030"]
    assert len(_whole(tmp_path, 30).parts) == 1


def test_what_was_asked_for_stays_with_its_transitions(tmp_path):
    store = Checkpoints(tmp_path)
    store.save(_snapshot(5), asked=True)
    (tmp_path / "replay" / "of part_1.txt").write_text("not ours to remove")
    for step in (40, 80, 120):
        store.save(_snapshot(step))
    assert steps_of(tmp_path) == [5, 80, 120]
    _whole(tmp_path, 5)
    assert (tmp_path / "replay" / "of part_1.txt").exists()


def test_a_replay_that_forgets(tmp_path):
    store = Checkpoints(tmp_path)
    for step, held in ((4, 4), (8, 0), (11, 3), (12, 4)):
        store.save(_snapshot(step, held))
        _whole(tmp_path, step, held)
    assert _parts(tmp_path) == ["000000008_000000011", "000000011_000000012"]


def test_a_resumed_run_forgets_what_comes_again(tmp_path):
    store = Checkpoints(tmp_path)
    store.save(_snapshot(4))
    store.save(_snapshot(8))
    store = Checkpoints(tmp_path, resumed=4)
    assert (steps_of(tmp_path), _parts(tmp_path)) == ([4], ["000000000_000000004"])
    store.save(_snapshot(9))
    assert store.save(_snapshot(9)).is_dir()  # which is there
    _whole(tmp_path, 9)


def test_a_newest_transition_that_changed_is_written_again_and_the_older_checkpoints_keep_theirs(tmp_path):
    store = Checkpoints(tmp_path)
    for step in (4, 7):
        store.save(_snapshot(step))

    def changed(n):
        rows = _history(12 - n, 12)
        rows.last[:, 6 - (12 - n)] = True
        return rows

    store = Checkpoints(tmp_path, resumed=7, changed=True)
    store.save(_snapshot(12)._replace(newest=changed))
    assert _parts(tmp_path) == ["000000000_000000004", "000000004_000000007", "000000004_000000012"]
    assert _whole(tmp_path, 7).newest(ROW_LIKE).last[:, 6].tolist() == [True, False]  # 6 and 6.5
    assert Checkpoint(tmp_path, 12).newest(ROW_LIKE).last[:, 6 - 2].tolist() == [True, True]
    store.save(_snapshot(14))
    assert [part.first for part in Checkpoint(tmp_path, 14).parts] == [4, 12]


def test_every_flipped_bit_is_noticed_and_its_file_named(tmp_path):
    Checkpoints(tmp_path).save(_snapshot(4))
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(paths) == 3
    for path in paths:
        good = path.read_bytes()
        for at in range(0, len(good), 7):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
            with pytest.raises(DamagedModel, match=path.name) as error:
                _whole(tmp_path, 4)
            assert "\n" not in str(error.value)
        path.write_bytes(good[:-1])
        with pytest.raises(DamagedModel, match=path.name):
            _whole(tmp_path, 4)
        path.write_bytes(good)
    _whole(tmp_path, 4)


@pytest.mark.parametrize(
    "rewritten",
    [
        lambda text: text + "\n",
        lambda text: json.dumps(json.loads(text)),
        lambda text: text.replace("1,", "NaN,", 1),
        lambda text: text[:-1] + ', "deep": ' + "[" * 900 + "]" * 900 + "}",
    ],
    ids=["longer", "shorter", "NaN", "deep"],
)
def test_a_manifest_is_as_it_was_written(tmp_path, rewritten):
    """Also where it says the same: what happened to it may have happened to other files."""
    path = Checkpoints(tmp_path).save(_snapshot(4)) / "manifest.json"
    path.write_text(rewritten(path.read_text()))
    with pytest.raises(DamagedModel, match=r"manifest\.json") as error:
        Checkpoint(tmp_path, 4)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("which", ["state", "transitions"])
def test_numbers_that_are_not_finite_never_reach_the_disk(tmp_path, which):
    store = Checkpoints(tmp_path)
    store.save(_snapshot(4))
    bad = _snapshot(8, state={"V": np.array([1, np.nan, 0], np.float32), "count": np.int32(8)})
    if which == "transitions":
        bad = _snapshot(8)._replace(newest=lambda n: _history(0, n)._replace(obs=np.full((2, n, 2), np.inf)))
    with pytest.raises(FloatingPointError, match=r"(V|obs) is not finite after 8 steps: no checkpoint is written"):
        store.save(bad)
    assert (steps_of(tmp_path), _parts(tmp_path)) == ([4], ["000000000_000000004"])


def test_killed_at_any_moment_the_last_checkpoint_is_whole(tmp_path, monkeypatch):
    """Every fsync and rename of a save in turn is the last thing that its process does."""

    class Killed(BaseException):
        pass

    def count(name, real, left):
        def call(*args, **named):
            left[0] -= 1
            if left[0] < 0:
                raise Killed(name)
            return real(*args, **named)

        return call

    left = [10**9]
    monkeypatch.setattr(os, "fsync", count("fsync", lambda handle: None, left))  # there are hundreds
    for place, name in ((os, "unlink"), (checkpoints.Path, "rename"), (checkpoints.Path, "mkdir")):
        monkeypatch.setattr(place, name, count(name, getattr(place, name), left))
    moments, killed = 0, True
    while killed:
        run = tmp_path / str(moments)
        store = Checkpoints(run)
        for step in (3, 6, 9):
            store.save(_snapshot(step))
        left[0] = moments
        try:
            store.save(_snapshot(12))
            killed = False
        except Killed:
            moments += 1
        left[0] = 10**9
        newest = steps_of(run)[-1]
        assert newest in (9, 12)
        _whole(run, newest)
        again = Checkpoints(run, resumed=newest)
        assert not list(run.rglob(".*"))
        for step in range(newest + 3, 19, 3):
            again.save(_snapshot(step))
            _whole(run, step)
    assert moments > 8


def test_links_lead_nowhere(tmp_path):
    Checkpoints(tmp_path / "run").save(_snapshot(4))
    for name in ("replay/part_000000000_000000004.safetensors", "replay", "checkpoints/step_000000004", "checkpoints"):
        path, elsewhere = tmp_path / "run" / name, tmp_path / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        with pytest.raises(DamagedModel, match="link"):
            _whole(tmp_path / "run", 4)
        path.unlink()
        elsewhere.rename(path)
    _whole(tmp_path / "run", 4)


@pytest.mark.parametrize(
    "forged",
    [
        {"parts": [{"first": 0, "last": 4, "name": "../../secret"}]},
        {"parts": [{"first": "../../x", "last": 4, "file": {}}]},
        {"parts": [{"first": 0, "last": 3, "file": {}}]},
        {"parts": [], "held": 4},
        {"parts": None},
        {"held": 10**12},
        {"step": 5},
        {"file": None},
        {"file": {"bytes": 10**15, "sha256": "", "tensors": {}}},
    ],
    ids=range(9),
)
def test_a_forged_manifest_reaches_for_nothing(tmp_path, forged):
    path = Checkpoints(tmp_path).save(_snapshot(4)) / "manifest.json"
    forge(path, **forged)
    with pytest.raises(DamagedModel) as error:
        _whole(tmp_path, 4)
    assert "\n" not in str(error.value)


def test_no_more_is_read_than_could_be_needed(tmp_path):
    path = Checkpoints(tmp_path).save(_snapshot(4)) / "state.safetensors"
    path.write_bytes(path.read_bytes() + bytes(10**6))
    with pytest.raises(DamagedModel, match="more than the"):
        _whole(tmp_path, 4)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedModel, match="not a plain file"):
        _whole(tmp_path, 4)


def test_hashes_are_of_the_bytes():
    for tensor in (np.float32(2), np.zeros((0, 3)), np.array([True, False]), np.arange(6).reshape(2, 3)):
        (named,) = tensors.named_tensors([tensor]).values()
        assert tensors.describe(named)["sha256"] == tensors.sha256(np.asarray(tensor).tobytes())


# ------------------------------------------------------------------------------------------------- the lock

_OWNER = "import sys, time; from pathlib import Path; from sbeed.storage.lock import locked\n"
_OWNER += "with locked(Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"


def test_a_directory_has_one_owner_and_is_free_when_it_is_killed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", _OWNER, str(tmp_path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"mine\n"
        begin = time.perf_counter()
        with pytest.raises(BlockingIOError, match=rf"in use by another process \({owner.pid}\)"), locked(tmp_path):
            pass
        assert time.perf_counter() - begin < 1
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    with locked(tmp_path), pytest.raises(BlockingIOError, match=str(os.getpid())), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass
