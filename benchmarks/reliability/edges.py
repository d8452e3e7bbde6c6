"""What lies at the edges of a run: memory, other people's environments and files, the terminal."""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.reliability import runs
from benchmarks.reliability.runs import Said
from benchmarks.reliability.trial import Trial, attempt, require

NAME = "edges"
MUST = "one line that says what happened, the exit code that is documented, no traceback, no hang"
LIMIT = None
ABOUT = """\
Whatever lies outside of the learner goes wrong once, each in a way of its own: there is not the memory that is asked
for, a file holds what no program of ours would write, an error is one that nobody foresaw. Seconds: of the command.
"""

Case = Callable[[Path], float | None]
CASES: dict[str, Case] = {}
PENDULUM = ("train", "--env", "Pendulum-v1", "--steps", "100")


def case(what: str) -> Callable[[Case], Case]:
    def add(one: Case) -> Case:
        CASES[what] = one
        return one

    return add


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    for seed in seeds:
        what = list(CASES)[seed % len(CASES)]
        with tempfile.TemporaryDirectory() as place:
            yield attempt(what, seed, lambda what=what, place=place: CASES[what](Path(place)))


def refused(said: Said, code: int, *words: str) -> None:
    require((said.code, said.err.count("\n")) == (code, 1), f"exit code {said.code}: {said.err}")
    for word in words:
        require(word in said.err, f"no {word!r} in: {said.err}")


def process(*words: str, before: Callable[[], None] | None = None, seconds: float = 120) -> Said:
    """A process of its own, for what must not happen to this one."""
    command = [sys.executable, "-m", "sbeed", *words]
    done = subprocess.run(command, preexec_fn=before, capture_output=True, text=True, timeout=seconds, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


# ------------------------------------------------------------------------------------------------- memory


def _asks_for_too_much(place: Path, *words: str) -> None:
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8_000_000_000, resource.RLIM_INFINITY))
    out = place / "run"
    refused(process(*PENDULUM, *words, "--out", str(out), before=limit), 2, "memory: the run takes at least", "are free")
    require(not out.exists(), "it left a directory")


@case("memory, of the replay")
def _(place: Path) -> None:
    _asks_for_too_much(place, "--replay-capacity", "1000000000")


@case("memory, of the networks")
def _(place: Path) -> None:
    _asks_for_too_much(place, "--hidden", "16384", "16384", "16384")


@case("memory, of the observations")
def _(place: Path) -> None:
    (place / "wide.py").write_text(_WIDE)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8_000_000_000, resource.RLIM_INFINITY))
    words = [sys.executable, "-c", "from sbeed.cli import main; main()", "train", "--env", "wide:Wide-v0"]
    done = subprocess.run(
        [*words, "--out", "run"], cwd=place, preexec_fn=limit, capture_output=True, text=True, timeout=120, check=False
    )
    refused(Said(done.returncode, done.stdout, done.stderr), 2, "memory: the run takes at least 8")


_WIDE = """
import gymnasium, numpy
class Wide(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (10_000,), numpy.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    def reset(self, *, seed=None, options=None):
        return numpy.zeros(10_000, numpy.float32), {}
    def step(self, action):
        return numpy.zeros(10_000, numpy.float32), 0.0, False, False, {}
gymnasium.register("Wide-v0", Wide, max_episode_steps=10)
"""


# ------------------------------------------------------------------------------------------------- what nobody foresaw


@case("an error that nobody foresaw")
def _(place: Path) -> None:
    from sbeed.cli import inspect as command

    def fails(self: object) -> int:
        raise LookupError("no\x1b[31m such\nthing")

    with runs.replaced(command.Inspect, "__call__", fails):
        said = runs.sbeed("inspect", place)
    refused(said, 70, "an error of sbeed's own, LookupError: no\\x1b[31m such thing; please report it with '")
    file = Path(said.err.split("'")[-2])
    require("Traceback" in file.read_text(), f"no traceback in {file}")
    file.unlink()


@case("a number of 400 digits")
def _(place: Path) -> None:
    (place / "config.yaml").write_text(f"env: Pendulum-v1\nlam: {'9' * 400}\nhidden: [{'9' * 400}]\n")
    refused(runs.sbeed("train", "--config", place / "config.yaml", "--out", place / "run"), 2)


@case("a path of 4000 characters")
def _(place: Path) -> None:
    for words in (("inspect",), ("eval",), ("resume",), ("plot",), ("data", "show"), ("report",)):
        refused(runs.sbeed(*words, "x" * 4000), 2)


@case("dollars in a plot")
def _(place: Path) -> None:
    row = {"env": "$$ $\\frac{$", "seed": 0, "step": 1, "return": 1.0, "final": True}
    for name in ("a", "b$$"):
        (place / name).mkdir()
        (place / name / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    said = runs.sbeed("plot", place / "a", place / "b$$", "--out", place / "curves.png")
    require(said.code == 0, said.err)


@case("lists for numbers in rows")
def _(place: Path) -> None:
    for key, value in (("step", [[1]]), ("return", {}), ("seed", []), ("env", 7), ("step", "x"), ("return", "x")):
        row = {"env": "x", "seed": 0, "step": 1, "return": 1.0, "final": True, key: value}
        (place / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        refused(runs.sbeed("plot", place, "--out", place / "curves.png"), 2, "metrics.jsonl")


@case("escapes in files")
def _(place: Path) -> None:
    """What a file holds never reaches the terminal as it is."""
    evil = "\x1b]0;x\x07\x1b[2J\x9b31m‮"
    (place / "config.yaml").write_text(json.dumps({"env": evil, evil: 1}))
    run = place / evil.replace("/", "")
    run.mkdir()
    (run / "metrics.jsonl").write_text(json.dumps({"env": evil, "seed": 0, "step": 1, "return": 1.0}) + "\n")
    (run / "config.yaml").write_text(json.dumps({"env": evil, "agent": evil}))
    commands = (
        ("train", "--config", place / "config.yaml", "--out", place / "new"),
        *((word, run) for word in ("inspect", "resume", "eval", "report", "plot", "value")),
        ("train", "--env", evil, "--out", place / "new"),
        ("train", "--config", run / "none", "--out", place / "new"),
        ("data", "show", run),
        ("data", "import", run, "--out", place / "new"),
        ("video", run),
    )
    for words in commands:
        said = runs.sbeed(*words)
        raw = [c for c in said.out + said.err if not c.isprintable() and c != "\n"]
        require(not raw, f"{words[0]}: {raw} in {said!r}")


# ------------------------------------------------------------------------------------------------- the last lines

COUNT = len(CASES)
