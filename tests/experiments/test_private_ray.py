"""A Ray of our own: a directory for us alone, gone afterwards; SIGTERM ends the command in one line."""

import os
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from sbeed.experiments.executors import Ray, _private_place


def test_what_a_killed_process_left_goes(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / f".ray.new-999999999-{'0' * 16}"
    (left / "session").mkdir(parents=True)
    place = _private_place()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == [place]
    _private_place()
    assert place.exists()  # of a process that lives


ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray")
def test_its_session_lies_in_a_directory_of_ours_which_goes_with_it():
    program = f"from {__name__} import *; look_at_the_place()"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def look_at_the_place():
    """In a process of its own: Ray forks, which it must not where jax has threads already."""
    executor = Ray(slots=1)
    try:
        place = executor._place
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0
        assert any((place / "ray").iterdir())
        assert os.stat(place).st_uid == os.getuid()
    finally:
        executor.close()
    assert not place.exists()
