"""Files made to do harm."""

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT
from benchmarks.reliability import hostile_data, hostile_files, runs
from benchmarks.reliability.golden import newest
from benchmarks.reliability.hostile_files import Kind
from benchmarks.reliability.trial import Trial, attempt, require

KINDS = hostile_files.KINDS + hostile_data.KINDS
NAME = "hostile"
MUST = "refused in one line; no pickle, exec, compile, import, subprocess, socket or write"
COUNT = 3 * len(KINDS)
LIMIT = None
ABOUT = """\
A config, a checkpoint, the rows of a run, a saved model or a dataset, ours or Minari's, is replaced by one made to do
harm; manifests are sealed anew, as a forger would. `sbeed resume`, `eval`, `train --config`, `fit`, `data show` or
`data import` must refuse it with exit code 2 and one line, and `sbeed inspect` must not crash. A Minari dataset that
only names code is imported, and the code stays alone. A process whose audit hook hears of everything that Python does
reports each event that could be harm: of pickle, exec, compile, import, ctypes, subprocess, fork, socket, and whatever
writes. Expected are: `resume` takes the lock of the run's directory, `train`, `fit` and `import` make the directory
that they were told to make, and those that refuse take it away again, and the command line compiles the methods of its
own dataclasses. Seconds: of one command.
"""


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as place, _Victim(Path(place)) as victim:
        for seed in seeds:
            kind, rng = KINDS[seed % len(KINDS)], random.Random(seed)
            yield attempt(f"{kind.what}, {kind.how}", seed, lambda kind=kind, rng=rng: _unharmed(victim, kind, rng))


def _unharmed(victim: "_Victim", kind: Kind, rng: random.Random) -> float:
    with tempfile.TemporaryDirectory(dir=victim.place) as text:
        target = runs.copy(newest(kind.target), Path(text) / kind.target)
        kind.make(target, rng)
        words = {
            "run": ["resume", str(target)],
            "model": ["eval", str(target), "--episodes", "1"],
            "film": ["video", str(target), "--out", str(Path(text) / "film.gif")],
            "train": ["train", "--config", str(target / "config.yaml"), "--out", str(Path(text) / "new")],
            "show": ["data", "show", str(target)],
            "fit": ["fit", str(target), "--out", str(Path(text) / "new")],
            "import": ["data", "import", str(target), "--out", str(Path(text) / "new")],
            "imports": ["data", "import", str(target), "--out", str(Path(text) / "new")],
        }[kind.command]
        before = _listing(target)
        said = victim.hear(words)
        require(not said["events"], f"{words[0]}: {said['events']}")
        expected = (0, 0) if kind.command == "imports" else (2, 1)
        require((said["code"], said["err"].count("\n")) == expected, f"{words[0]}: {said['code']} {said['err']}")
        looked = victim.hear(["inspect", str(target)])
        require(not looked["events"], f"inspect: {looked['events']}")
        require(looked["code"] in (0, 1, 2) and looked["err"].count("\n") <= 1, f"inspect: {looked}")
        require(_listing(target) == before, "its files were changed")
        return max(said["seconds"], looked["seconds"])


def _listing(target: Path) -> list[tuple[str, int]]:
    """Names and sizes; what is no plain file is not opened."""
    paths = [path for path in target.rglob("*") if path.name != "lock"]
    return sorted((str(path.relative_to(target)), path.lstat().st_size) for path in paths)


class _Victim:
    """A process that runs commands and hears what they do. One that dies of it is replaced."""

    def __init__(self, place: Path):
        self.place = place

    def __enter__(self) -> "_Victim":
        words = [sys.executable, "-m", "benchmarks.reliability.victim"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(words, cwd=ROOT, **pipes)
        return self

    def hear(self, words: Sequence[str]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self.__enter__()
            require(False, f"{words[0]}: the process died (exit code {code})")
        return json.loads(line)

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
