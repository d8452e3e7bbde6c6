"""Type checkers know the public names, the keywords of each agent, its presets and its config."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools import write_settings

SAMPLES = Path(__file__).parent / "typing"
SOURCE = Path(__file__).parents[1] / "src"


def test_the_keywords_are_those_of_the_configs():
    formatted = subprocess.run(
        [shutil.which("ruff", path=str(Path(sys.executable).parent)), "format", "-", "--line-length", "120"],
        input=write_settings.content(), capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert write_settings.FILE.read_text() == formatted, "run: python -m tools.write_settings"


def _mypy(path, cache):
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--follow-imports=silent",
               "--config-file=", f"--cache-dir={cache}", "--ignore-missing-imports", str(path)]  # fmt: skip
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={"MYPYPATH": str(SOURCE), "PATH": ""}
    ).stdout


def _pyright(path, cache):
    command = [shutil.which("pyright"), "--pythonpath", sys.executable, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module", params=["mypy", "pyright"] if shutil.which("pyright") else ["mypy"])
def complaints(request, tmp_path_factory):
    """The numbers of the lines that a type checker complains of, by file."""
    cache, check = tmp_path_factory.mktemp("cache"), _mypy if request.param == "mypy" else _pyright

    def lines(name):
        said = check(SAMPLES / name, cache)
        return said, {int(number) for number in re.findall(rf"{name}:(\d+):[\d: -]* error", said)}

    return lines


def test_right_code_is_clean(complaints):
    said, lines = complaints("right.py")
    assert not lines, said


def test_wrong_code_is_not(complaints):
    said, lines = complaints("wrong.py")
    source = (SAMPLES / "wrong.py").read_text().splitlines()
    assert lines == {number for number, line in enumerate(source, 1) if line.endswith("# wrong")}, said
