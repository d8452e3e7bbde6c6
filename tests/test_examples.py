"""The examples run, in few steps."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(path), "100"])  # less than a warm-up: nothing is compiled that takes long
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
