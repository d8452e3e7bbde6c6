"""A run's directory: whole rows, plain data, and nothing left of a run that came to nothing."""

import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from sbeed.storage import run_dir

ROW = {"env": "Pendulum-v1", "seed": 0, "step": 20, "return": -150.0, "train_return": math.nan, "final": False}
SETTINGS = {"env": "Pendulum-v1", "seeds": [0], "lam": 0.1, "hidden": [64, 64], "newest": None}


@contextmanager
def _opened(path):
    """A new run of one seed."""
    with run_dir.RunDir(path) as run:
        run.begin(SETTINGS)
        run.open([0])
        yield run


def test_rows_and_settings_come_back(tmp_path):
    path = tmp_path / "runs" / "pendulum"
    with _opened(path) as run:
        run.append([ROW])
        run.append([{**ROW, "step": 40, "train_return": -160.0, "final": True}])
        assert run.model(0) == path / "model"
    rows = run_dir.read_rows(path)
    assert [row["step"] for row in rows] == [20, 40]
    assert rows[0]["train_return"] is None
    assert rows[1]["final"] is True
    assert run_dir.read_config(path / "config.yaml") == SETTINGS
    assert list((path / "tensorboard" / "seed_0").glob("events*"))


def test_events_hold_the_rows(tmp_path):
    with _opened(tmp_path / "run") as run:
        run.append([ROW])
    (path,) = (tmp_path / "run" / "tensorboard" / "seed_0").glob("events*")
    (found,) = (_values(event) for event in _events(path) if event.summary.value)
    assert found["return"] == (20, -150.0)
    assert "env" not in found


def _events(path):
    from tensorboardX.proto.event_pb2 import Event

    data, at, found = path.read_bytes(), 0, []
    while at < len(data):  # length (8 bytes), its checksum (4), the event, its checksum (4)
        length = int.from_bytes(data[at : at + 8], "little")
        found.append(Event.FromString(data[at + 12 : at + 12 + length]))
        at += length + 16
    return found


def _values(event):
    return {value.tag: (event.step, value.simple_value) for value in event.summary.value}


def test_what_came_after_the_checkpoint_has_not_happened(tmp_path):
    with _opened(tmp_path / "run") as run:
        run.append([ROW])
        size = run.bytes_of_rows()
        run.append([{**ROW, "final": True}, {**ROW, "step": 40}])
    with run_dir.RunDir(tmp_path / "run", resume=True) as run:
        assert run.goes_on
        run.open([0], step=20, rows=size)
        run.append([{**ROW, "step": 30}])
    assert [row["step"] for row in run_dir.read_rows(tmp_path / "run")] == [20, 30]
    old, new = sorted((tmp_path / "run" / "tensorboard" / "seed_0").iterdir())
    assert [event.step for event in _events(old)] == [0, 20, 20, 40]
    _, start, *rows = _events(new)  # the first is the file's version
    assert (start.step, start.session_log.status) == (20, start.session_log.START)
    assert [event.step for event in rows] == [20, 30]  # 20 again, for TensorBoard drops what is not before `start`


def test_a_run_that_goes_on_is_never_thrown_away(tmp_path):
    with _opened(tmp_path / "run"):
        pass
    with pytest.raises(FloatingPointError), run_dir.RunDir(tmp_path / "run", resume=True):
        raise FloatingPointError
    assert run_dir.is_run(tmp_path / "run")


def test_links_lead_nowhere(tmp_path):
    with _opened(tmp_path / "run") as run:
        run.append([ROW])
    for name in ("metrics.jsonl", "tensorboard", "tensorboard/seed_0", "config.yaml"):
        path, elsewhere = tmp_path / "run" / name, tmp_path / "elsewhere"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        with pytest.raises(FileExistsError, match="is a link"), run_dir.RunDir(tmp_path / "run", resume=True):
            pass
        path.unlink()
        elsewhere.rename(path)
    assert len(run_dir.read_rows(tmp_path / "run")) == 1
    (tmp_path / "run" / "metrics.jsonl").unlink()
    os.mkfifo(tmp_path / "run" / "metrics.jsonl")  # opening it would wait for ever
    with pytest.raises(FileExistsError, match="not a plain file"), run_dir.RunDir(tmp_path / "run", resume=True):
        pass


def test_a_run_has_one_owner(tmp_path):
    with _opened(tmp_path / "run"):
        for resume in (True, False):
            with pytest.raises(OSError, match=r"in use|not an empty"), run_dir.RunDir(tmp_path / "run", resume=resume):
                pass
    with run_dir.RunDir(tmp_path / "new"), pytest.raises(BlockingIOError, match="in use by"):
        run_dir.RunDir(tmp_path / "new").__enter__()
    with run_dir.RunDir(tmp_path / "new") as run:  # its last owner left nothing but the lock
        assert not run.goes_on


def test_wrong_input_leaves_a_directory_as_it_was(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new"):
        with pytest.raises(ValueError, match="wrong"), run_dir.RunDir(tmp_path / name):
            raise ValueError("wrong")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_run_that_fails_before_its_first_row_leaves_nothing(tmp_path):
    def fail(rows):
        with _opened(tmp_path / "run") as run:
            run.append(rows)
            raise FloatingPointError("reward is not finite")

    with pytest.raises(FloatingPointError):
        fail([])
    assert not (tmp_path / "run").exists()
    with pytest.raises(FloatingPointError):
        fail([ROW])
    assert len(run_dir.read_rows(tmp_path / "run")) == 1


def test_a_full_disk_is_an_error_and_no_endless_wait(tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    with _opened(tmp_path / "run") as run:
        monkeypatch.setattr("tensorboardX.record_writer.RecordWriter.write", full)
        with pytest.raises(OSError, match="No space"):
            run.append([ROW] * 100)
    assert len(run_dir.read_rows(tmp_path / "run")) == 1


def test_settings_that_cannot_be_written_leave_nothing(tmp_path):
    with pytest.raises(Exception, match="represent"), run_dir.RunDir(tmp_path / "run") as run:
        run.begin({"lam": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_use_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    run_dir.check_free(tmp_path / "run")
    run_dir.check_free(tmp_path / "new")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not an empty directory"):
        run_dir.check_free(tmp_path / "run")
    with pytest.raises(FileExistsError, match="not an empty directory"), run_dir.RunDir(tmp_path / "run"):
        pass
    with pytest.raises(FileExistsError):
        run_dir.check_free(tmp_path / "run" / "notes.txt")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_a_line_still_being_written_is_left_out(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 1}) + "\n" + '{"step": 2, "retu')
    assert run_dir.read_rows(tmp_path) == [{"step": 1}]


def test_models_of_one_seed_of_several_and_alone(tmp_path):
    for name in ("seed_0", "seed_10", "seed_2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").touch()
    assert [path.name for path in run_dir.saved_models(tmp_path)] == ["seed_0", "seed_2", "seed_10"]
    assert run_dir.saved_models(tmp_path / "seed_2") == [tmp_path / "seed_2"]
    (tmp_path / "empty").mkdir()
    for name, words in (("empty", "no saved model"), ("nowhere", "does not exist")):
        with pytest.raises(FileNotFoundError, match=words):
            run_dir.saved_models(tmp_path / name)


@pytest.mark.parametrize(
    "text",
    [
        "lam: [",
        "- 1",
        "3",
        "",
        "1: 2",
        "!!python/object/apply:os.system ['true']",
        "\x00",
        "lam: " + "[" * 10_000,
        "a: &a [1]\nb: *a",
    ],
    ids=range(9),
)
def test_a_config_file_that_is_none(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"config\.yaml") as error:
        run_dir.read_config(tmp_path / "config.yaml")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["metrics.jsonl", "config.yaml"])
def test_links_in_a_run_are_not_followed(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("{}\n")
    (tmp_path / name).symlink_to(elsewhere)
    read = {
        "metrics.jsonl": lambda: run_dir.read_rows(tmp_path),
        "config.yaml": lambda: run_dir.read_config(tmp_path / name),
    }
    with pytest.raises(OSError, match=name):
        read[name]()
    # The user may name a link.
    assert run_dir.read_named_config(tmp_path / name) == {}


def test_json_is_a_config_file_too(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"lam": 0.1, "hidden": [64]}, indent=2))
    assert run_dir.read_config(tmp_path / "config.json") == {"lam": 0.1, "hidden": [64]}


def test_reading_runs_needs_no_jax():
    subprocess.run(
        [sys.executable, "-c", "import sys, sbeed.storage.run_dir; assert 'jax' not in sys.modules"], check=True
    )


@pytest.mark.parametrize("line", [b"\x80\xff\n", b"[" * 100_000 + b"\n", b"7\n", b"os.system\n"])
def test_what_is_no_row_is_refused_in_one_line(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(line)
    with pytest.raises(ValueError, match=r"metrics\.jsonl' (holds something that is no row|cannot be read)") as error:
        run_dir.read_rows(tmp_path)
    assert "\n" not in str(error.value)
