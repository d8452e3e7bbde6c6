"""Whatever of a run the disk refuses is told in one line: what, why, the bytes that it takes and that are free."""

import errno
import gc
import re

import numpy as np
import pytest
from benchmarks.reliability.disk import limited

from sbeed.storage import run_dir
from sbeed.storage.checkpoints import Checkpoints, Snapshot
from sbeed.storage.disk_errors import explained_disk_errors
from sbeed.storage.run_dir import RunDir
from sbeed.storage.tensor_folder import MODEL
from sbeed.training import session

ROW = {"env": "Pendulum-v1", "seed": 0, "step": 20, "return": -150.0, "final": False}
STATE = {"V": np.zeros(100, np.float32)}


def _lock(place):
    return lambda: RunDir(place / "run").__enter__()


def _settings(place):
    run = RunDir(place).__enter__()
    return lambda: run.begin({"env": "Pendulum-v1"})


def _row(place):
    run = RunDir(place).__enter__()
    run.open([0])
    return lambda: run.append([ROW])


def _event(place):
    return lambda: run_dir._Events(place).write(ROW)


def _curve(place):
    return lambda: session.draw_curve(place, [ROW])


def _model(place):
    return lambda: MODEL.save(place / "model", STATE, {})


def _checkpoint(place):
    store = Checkpoints(place)
    return lambda: store.save(Snapshot(4, {}, STATE, 0, lambda n: None))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of files that hold what was refused
@pytest.mark.parametrize(
    ("begin", "what", "takes"),
    [
        (_lock, "lock", None),
        (_settings, "config.yaml", len("env: Pendulum-v1\n")),
        (_row, "row", None),
        (_event, "event", None),
        (_curve, "curve.png", None),
        (_model, "model", 400),
        (_checkpoint, "checkpoint of step 4", 400),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_every_write_of_a_run(tmp_path, begin, what, takes):
    write = begin(tmp_path)
    with limited(0), pytest.raises(OSError, match="are free") as error:
        write()
    said = rf"no {what} in '.*' \(File too large\): it takes ([\d,]+) bytes, [\d,]+ are free.*"
    told = re.fullmatch(said, str(error.value))
    assert told, error.value
    assert takes in (None, int(told[1].replace(",", "")))
    del write, error  # and with them the files, here, where their complaints are ignored
    gc.collect()


def test_what_is_told_once_is_not_told_again_and_what_is_no_refusal_not_at_all(tmp_path):
    with (
        pytest.raises(OSError, match=r"^no row in "),
        explained_disk_errors("more", tmp_path),
        explained_disk_errors("row", tmp_path / "run", 7),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    said = r"^no more in '.*' \(Read-only file system\): [\d,]+ bytes are free$"
    with pytest.raises(OSError, match=said), explained_disk_errors("more", tmp_path):
        raise OSError(errno.EROFS, "Read-only file system")
    with pytest.raises(FileExistsError, match=r"^it is there$"), explained_disk_errors("row", tmp_path, 7):
        raise FileExistsError("it is there")
