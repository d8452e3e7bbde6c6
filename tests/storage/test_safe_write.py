"""One way in which every file is written: nothing that was planted is followed, and nothing half-written stays."""

import os
import shutil
import stat
from pathlib import Path

import pytest

from sbeed import cli
from sbeed.reporting import figure_folder
from sbeed.storage import run_dir, safe_write
from sbeed.storage.lock import locked
from sbeed.storage.run_dir import RunDir

GOLDEN = Path(__file__).parents[1] / "golden"


def _plant(path, kind, aim):
    """Something that was put where a file is about to be written."""
    if kind == "link":
        path.symlink_to(aim)
    elif kind == "dangling":
        path.symlink_to(aim.with_name("nobody"))
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()


def _untouched(aim):
    return aim.read_text() == "precious" and not aim.with_name("nobody").exists()


@pytest.fixture
def aim(tmp_path):
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def _append(path):
    with safe_write.open_to_append(path) as file:
        file.write(b"x")


def _lock(path):
    with locked(path.parent):
        pass


def _new(path):
    with safe_write.new_file(path) as part:
        part.write_bytes(b"x")


WRITERS = {
    "a file": ("x.json", lambda path: safe_write.write_file(path, b"x")),
    "what others write": ("x.png", _new),
    "rows": ("metrics.jsonl", _append),
    "the lock": ("lock", _lock),
    "progress": ("progress", lambda path: figure_folder.write_progress(path.parent, 7)),
    "a figure": ("figure.json", lambda path: figure_folder.write_figure(path.parent, {})),
    "theory": ("theory.csv", lambda path: figure_folder.write_theory(path.parent, [])),
}


@pytest.mark.parametrize("kind", ["link", "dangling", "pipe", "directory"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_plain_file_is_refused_and_nothing_is_followed(tmp_path, aim, writer, kind):
    name, write = WRITERS[writer]
    place = tmp_path / "run"
    place.mkdir()
    _plant(place / name, kind, aim)
    with pytest.raises(FileExistsError, match=r"link, which may lead anywhere|not a plain file"):
        write(place / name)
    assert _untouched(aim)
    assert [path.name for path in place.iterdir()] == [name]


@pytest.mark.parametrize("writer", WRITERS)
def test_a_plain_file_is_replaced_or_gone_on_with(tmp_path, writer):
    name, write = WRITERS[writer]
    for _ in range(2):
        write(tmp_path / name)
        assert stat.S_ISREG((tmp_path / name).lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("planted", [".report.html", ".figure.json", ".config.yaml", ".video.part.mp4", ".x.new"])
def test_no_name_that_could_be_known_is_written_to(tmp_path, aim, planted):
    """Under these names files used to be written first."""
    (tmp_path / planted).symlink_to(aim)
    figure_folder.write_figure(tmp_path, {"name": "x", "title": "x", "panels": []})
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(tmp_path)])
    assert stop.value.code == 0
    assert _untouched(aim)


def test_a_new_run_follows_no_planted_settings(tmp_path, aim):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".config.yaml").symlink_to(aim)
    with RunDir(tmp_path / "run") as run:
        run.begin({"env": "Pendulum-v1"})
        run.keep()
    assert _untouched(aim)
    assert run_dir.read_config(tmp_path / "run" / "config.yaml") == {"env": "Pendulum-v1"}


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize(
    "words",
    [
        ["plot", "{run}", "--out", "{out}.png"],
        ["video", "{model}", "--out", "{out}.gif"],
        ["data", "show", "{data}", "--out", "{out}.png"],
    ],
    ids=lambda words: words[0],
)
def test_no_picture_is_drawn_into_something_else(capsys, tmp_path, aim, words, kind):
    for package in ("matplotlib", "imageio", "pygame"):
        pytest.importorskip(package)
    places = {"run": "run_schema_2", "model": "model_schema_2", "data": "data_schema_1"}
    filled = [word.format(out=tmp_path / "out", **{k: GOLDEN / v for k, v in places.items()}) for word in words]
    _plant(Path(filled[-1]), kind, aim)
    with pytest.raises(SystemExit) as stop:
        cli.main(filled)
    err = capsys.readouterr().err
    assert (stop.value.code, err.count("\n")) == (2, 1)
    assert "nothing is written there" in err
    assert _untouched(aim)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["precious", Path(filled[-1]).name])


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    safe_write.write_file(path, b"old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        safe_write.write_file(path, b"new")
    with pytest.raises(OSError, match="No space"), safe_write.new_file(path) as part:
        part.write_bytes(b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_left_half_written_is_swept_and_nothing_else(tmp_path):
    left = [safe_write.beside(tmp_path / name) for name in ("x.json", "model")]
    left[0].touch()
    left[1].mkdir()
    others = [tmp_path / name for name in (".bashrc", ".model.news", "x.new-1", ".x.new-y.json")]
    for path in others:
        path.touch()
    safe_write.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(others)
    shutil.rmtree(tmp_path)


def test_beside_what_has_no_owner_only_the_dead_are_swept(tmp_path):
    alive = safe_write.beside(tmp_path / "model")
    dead = tmp_path / f".model.new-{2**22 + 1}-0123456789abcdef"  # beyond the largest number of a process
    other = tmp_path / f".data.new-{2**22 + 1}-0123456789abcdef"
    for path in (alive, dead, other):
        path.mkdir()
    safe_write.sweep_beside(tmp_path / "model")
    assert sorted(tmp_path.iterdir()) == sorted([alive, other])
