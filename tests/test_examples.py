"""The examples run, and the snippet of the README, in few steps."""

import re
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


def test_readme_snippet(tmp_path, monkeypatch, capsys):
    (snippet,) = re.findall(r"```python\n(.*?)```", (EXAMPLES[0].parents[1] / "README.md").read_text(), re.DOTALL)
    assert "total_timesteps=10_000" in snippet
    monkeypatch.chdir(tmp_path)
    exec(snippet.replace("10_000", "100"), {})
    assert capsys.readouterr().out
