"""What lies at the edges of a run: memory, other people's environments and files, the terminal."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

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


# Memory that the process after these words may have. The shell sets it: nothing may run between a fork of jax's threads
# and the new program.
LIMITED = ("sh", "-c", 'ulimit -v 7812500 && exec "$@"', "sh")


def process(*words: str, limited: bool = False, seconds: float = 120) -> Said:
    """A process of its own, for what must not happen to this one."""
    command = [*(LIMITED if limited else ()), sys.executable, "-m", "sbeed", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


# ------------------------------------------------------------------------------------------------- memory


def _asks_for_too_much(place: Path, *words: str) -> None:
    out = place / "run"
    said = process(*PENDULUM, *words, "--out", str(out), limited=True)
    refused(said, 2, "memory: the run takes at least", "are free")
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
    words = [*LIMITED, sys.executable, "-c", "from sbeed.cli import main; main()", "train", "--env", "wide:Wide-v0"]
    done = subprocess.run([*words, "--out", "run"], cwd=place, capture_output=True, text=True, timeout=120, check=False)
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
    evil = "\x1b]0;x\x07\x1b[2J\x9b31m\u202e"
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


# ------------------------------------------------------------------------------------------------- environments

ENVS = """
import os, sys, time, gymnasium, numpy

class Odd(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), numpy.float32)
    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.look(), {}
    def step(self, action):
        self.t += 1
        return self.look(), float(action[0]), False, self.t >= 20, {}
    def look(self):
        return numpy.full(3, self.t / 20, numpy.float32)

class Shape(Odd):
    def look(self):
        return numpy.zeros(2 if self.t == 5 else 3, numpy.float32)

class Empty(Odd):
    observation_space = gymnasium.spaces.Box(-1, 1, (0,), numpy.float32)

class Negative(Odd):
    observation_space = gymnasium.spaces.Discrete(4)
    odd = -1
    def look(self):
        return self.odd if self.t == 5 else 0

class Broken(Negative):
    odd = 1.7

class Exits(Odd):
    def look(self):
        if self.t == 5:
            sys.exit(0)
        return super().look()

class Endless(Odd):
    def step(self, action):
        return self.look(), 0.0, False, False, {}

class Stuck(Odd):
    def step(self, action):
        while self.t == 3:
            time.sleep(0.01)
        return super().step(action)

class Dies(Odd):
    def step(self, action):
        if self.t == 10 and os.path.exists("die"):
            os.rename("die", "dead")
            os.kill(os.getpid(), 9)
        return super().step(action)

class Deadly(Odd):
    def step(self, action):
        if self.t == 10:
            os.kill(os.getpid(), 9)
        return super().step(action)

for kind in (Shape, Empty, Negative, Broken, Exits, Endless, Stuck, Dies, Deadly):
    gymnasium.register(f"{kind.__name__}-v0", kind)
"""
BEGIN = "from sbeed.cli import main; main()"


def _train(place: Path, env: str, *words: str, out: str = "run") -> Said:
    """In a process of its own, which finds the environments."""
    (place / "odd.py").write_text(ENVS)
    asked = runs.command(Path(out), f"odd:{env}-v0", 100, *words)
    done = subprocess.run(
        [sys.executable, "-c", BEGIN, *asked], cwd=place, capture_output=True, text=True, timeout=300, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def _fault(env: str, code: int, *words: str) -> Case:
    return lambda place: refused(_train(place, env), code, *words)


WHERE = "at step 5 of episode 1"
CASES |= {
    "an observation of another shape": _fault("Shape", 3, "has the shape (2,), its space has (3,)", WHERE),
    "an observation without numbers": _fault("Empty", 2, "has no numbers"),
    "the observation -1 of a discrete space": _fault("Negative", 3, "observation -1 is not one of", WHERE),
    "the observation 1.7 of a discrete space": _fault("Broken", 3, "observation 1.7 is not one of", WHERE),
    "an environment that calls sys.exit": _fault("Exits", 3, "SystemExit: 0", WHERE),
}


@case("an evaluation without an end")
def _(place: Path) -> None:
    """It is cut off after as many steps as the environment's registration names, or 100,000."""
    from sbeed import SBEED
    from sbeed.collect import actor

    require(actor.LONGEST == 100_000, actor.LONGEST)
    namespace: dict[str, Any] = {}
    exec(ENVS.partition("for kind")[0], namespace)
    with runs.replaced(actor, "LONGEST", 50):
        agent = SBEED("MlpPolicy", namespace["Endless"](), eval_env=namespace["Endless"](), **runs.FIELDS)
        require(agent.evaluate(2).lengths == [50, 50], "it was not cut off")


@case("Ctrl-C while an environment does not answer")
def _(place: Path) -> float:
    """One is enough, once a line has said so."""
    (place / "odd.py").write_text(ENVS)
    program = f"from sbeed.training import interrupt; interrupt.PATIENCE = 1.0; {BEGIN}"
    asked = runs.command(Path("run"), "odd:Stuck-v0", 100)
    return _interrupted(place, [program, *asked], "no answer from", 1)


@case("Ctrl-C in a compiled program that does not end")
def _(place: Path) -> float:
    return _interrupted(place, [_ENDLESS_PROGRAM], "ready", 2)


_ENDLESS_PROGRAM = """
import sys, jax
from sbeed.training import interrupt
interrupt.GRACE = 1.0
program = jax.jit(lambda x: jax.lax.while_loop(lambda x: x >= 0, lambda x: x * 0, x))
with interrupt.interruptible(""):
    print("ready", file=sys.stderr, flush=True)
    program(1).block_until_ready()
"""


def _interrupted(place: Path, words: Sequence[str], first: str, times: int) -> float:
    """Seconds from the last signal to the end; before the first one the process has said that."""
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    # What a shell starts in the background does not hear Ctrl-C, nor what that starts.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program, *rest = words
    with subprocess.Popen([sys.executable, "-c", hearing + program, *rest], cwd=place, **pipes) as running:
        try:
            assert running.stderr
            line = running.stderr.readline()
            require(first in line, f"it says {line!r}")
            for _ in range(times):
                time.sleep(1)
                running.send_signal(signal.SIGINT)
            begin = time.perf_counter()
            _, err = running.communicate(timeout=60)
            require(running.returncode == 130 and "Traceback" not in err, f"exit code {running.returncode}: {err}")
            return time.perf_counter() - begin
        finally:
            running.kill()


@case("SIGTERM to a figure")
def _(place: Path) -> float:
    """It ends its runs, which leave a checkpoint, and says how to go on."""
    words = ["-m", "sbeed", "figure", "on-policy", "--only", "Pendulum-v1", "TRPO", "--out", str(place / "figure")]
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as running:
        try:
            for _ in range(1200):
                if list((place / "figure").glob("runs/*/lock")):
                    break
                time.sleep(0.1)
            running.send_signal(signal.SIGTERM)
            begin = time.perf_counter()
            _, err = running.communicate(timeout=60)
        finally:
            running.kill()
    refused(Said(running.returncode, "", err), 143, "terminated: run the same command to continue")
    return time.perf_counter() - begin


@case("a worker that dies")
def _(place: Path) -> None:
    """It is replaced, and the run ends bit-equal to one whose worker lived."""
    said = _train(place, "Dies", "--workers", "1", out="lived")
    require((said.code, said.err) == (0, ""), f"exit code {said.code}: {said.err}")
    (place / "die").touch()
    said = _train(place, "Dies", "--workers", "1")
    require((place / "dead").exists(), "it did not die")
    refused(said, 0, "a worker process died (exit code -9); the run goes on from step")
    different = runs.difference(runs.fingerprint(place / "lived"), runs.fingerprint(place / "run"))
    require(not different, f"not the undisturbed run's: {different}")


@case("a worker that dies again and again")
def _(place: Path) -> None:
    said = _train(place, "Deadly", "--workers", "1")
    require(said.code == 3 and said.err.count("\n") == 2, f"exit code {said.code}: {said.err}")
    require(not (place / "run").exists(), "it has nothing to show and left a directory")


# ------------------------------------------------------------------------------------------------- settings, journals


@case("settings that two readers would read differently")
def _(place: Path) -> None:
    file = place / "config.yaml"

    def told(text: str) -> Said:
        file.write_text(f"env: Pendulum-v1\n{text}\n")
        return runs.sbeed("train", "--config", file, "--out", place / "run")

    refused(told("lam: 0.1\nlam: 0.2"), 2, "is given twice")
    refused(told("batch_size: 1:40"), 2, "batch_size: expected a whole number, got '1:40'")
    refused(told("overlap: off"), 2, "overlap: expected true or false, got 'off'")
    refused(told("batch_size: &a 64\nwarmup: *a"), 2, "an alias")
    from sbeed.storage.run_dir import parse_config

    found = parse_config("a: 0100\nb: 0o14\nc: 1e-3\nd: .5\ne: ~\nf: 2026-01-01\ng: -3\nh: 1_0\n", file)
    wanted = {"a": 100, "b": 12, "c": 0.001, "d": 0.5, "e": None, "f": "2026-01-01", "g": -3, "h": "1_0"}
    require(found == wanted, found)


@case("settings of 600 kB")
def _(place: Path) -> float:
    file = place / "config.yaml"
    for line in ("- " * 50 + "1\n", "a: 1\n", "[" * 100):
        file.write_text(line * (600_000 // len(line)))
        begin = time.perf_counter()
        refused(runs.sbeed("train", "--config", file, "--out", place / "run"), 2, "too long for a file of settings")
    return time.perf_counter() - begin


def _journal(place: Path) -> tuple[Callable[[], Said], Path]:
    words = ("--env", "jax:pendulum", "--steps", "16", *runs.SIZES.split(), "--over", "lam=0.1,0.2", "--trials", "1")
    return lambda: runs.sbeed("tune", *words, "--out", place / "tune"), place / "tune" / "journal.log"


@case("a journal that is none")
def _(place: Path) -> float:
    """A pipe, a link, a sparse file, other people's lines: refused, and nothing is written."""
    tune, journal = _journal(place)
    journal.parent.mkdir()
    target = place / "target"
    target.write_text("somebody's\n")
    worst = 0.0
    lines = (
        b"{}\n", b"[]\n", b"1\n", b"null\n", b'{"op_code": 0}\n', b'{"op_code": 99, "worker_id": "x"}\n', b"\xff\n",
        b'{"op_code": 0, "worker_id": "x", "study_name": "sbeed", "directions": [9]}\n', b"[" * 100_000 + b"\n",
        b'{"op_code": 0, "worker_id": "x", "study_name": "other", "directions": [2]}\n',
    )  # fmt: skip
    for make in (
        lambda: os.mkfifo(journal),
        lambda: journal.symlink_to(target),
        journal.mkdir,
        lambda: journal.touch() or os.truncate(journal, 2**34),
        *(lambda line=line: journal.write_bytes(line) for line in lines),
    ):
        make()
        before = _stat(journal)
        begin = time.perf_counter()
        refused(tune(), 2, "journal.log'")
        worst = max(worst, time.perf_counter() - begin)
        require(_stat(journal) == before, "it was changed")
        left = {path.name for path in journal.parent.iterdir()} - {"journal.log", "lock"}
        require(not left, f"a refused search wrote {left}")
        journal.rmdir() if journal.is_dir() and not journal.is_symlink() else journal.unlink()
    require(target.read_text() == "somebody's\n", "the target of a link was written")
    return worst


def _stat(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return found.st_mode, found.st_size, found.st_mtime_ns, found.st_ino


# ------------------------------------------------------------------------------------------------- going on


def _broken_off(place: Path) -> Path:
    runs.break_off(place / "run", "Pendulum-v1", 40)
    return place / "run"


@case("damaged rows, before anything is changed")
def _(place: Path) -> None:
    run = _broken_off(place)
    rows = run / "metrics.jsonl"
    content = bytearray(rows.read_bytes())
    content[content.index(b'"return": ') + 12] ^= 1
    rows.write_bytes(content)
    before = runs.files(run)
    refused(runs.sbeed("resume", run), 2, "metrics.jsonl' is not what was saved: its SHA-256 differs")
    require(runs.files(run) == before, "a refused resume changed files")
    require(runs.sbeed("inspect", run).code == 1, "inspect says that all is well")


@case("an edited config.yaml")
def _(place: Path) -> None:
    """The run goes on as it was begun."""
    run = _broken_off(place)
    never = place / "never"
    runs.sbeed(*runs.command(never, "Pendulum-v1", 100))
    config = run / "config.yaml"
    edits = {"steps: 100": "steps: 48", "episodes: 1": "episodes: 3", "evaluate_every: 24": ""}
    text = config.read_text()
    for old, new in edits.items():
        require(old in text, f"no {old} in config.yaml")
        text = text.replace(f"\n{old}", f"\n{new}", 1)
    config.write_text(text)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        said = runs.sbeed("resume", run)
    require(said.code == 0, said.err)
    require("steps 48 (begun with 100)" in str(told[0].message), f"it says {told[0].message}")
    different = runs.difference(runs.fingerprint(run), runs.fingerprint(never))
    require(not different, f"not the uninterrupted run's: {different}")


@case("another number of cores and another version")
def _(place: Path) -> None:
    from sbeed.storage import tensors
    from sbeed.training import run_settings, session

    machine = {**run_settings.machine(), "cores": 77}
    versions = {**tensors.versions(), "jax": "0.0.1"}
    with runs.replaced(session, "machine", lambda: machine), runs.replaced(tensors, "versions", lambda: versions):
        run = _broken_off(place)
    refused(process("resume", str(run)), 0, "cores 77 there", "jax 0.0.1 there", "may differ in rounding")


@case("what a killed process left half-written")
def _(place: Path) -> None:
    run = _broken_off(place)
    for name in (".model.new-999999", f".config.new-999999-{'0' * 16}.yaml", ".model.old-999999-" + "1" * 16):
        (run / name).mkdir()
    said = runs.sbeed("resume", run)
    require((said.code, said.err) == (0, ""), f"exit code {said.code}: {said.err}")
    left = [path.name for path in run.iterdir() if path.name.startswith(".")]
    require(not left, f"left behind: {left}")


@case("a saved model that is replaced")
def _(place: Path) -> None:
    """Whenever its writer is killed there is a whole model, the old one or the new one."""
    from sbeed.storage.tensor_folder import MODEL

    def save(step: int) -> None:
        MODEL.save(place / "model", {"x": np.full(3, step, np.float32)}, {"step": step})

    save(0)
    renamed = os.rename
    for call in range(1, 5):
        done = 0

        def dies(*names: Any, call: int = call) -> None:
            nonlocal done
            done += 1
            renamed(*names)
            if done == call:
                raise runs.BrokenOff

        with runs.replaced(os, "rename", dies), suppress(runs.BrokenOff):
            save(call)
        require(MODEL.read_manifest(place / "model")["step"] in (call - 1, call), f"no model after rename {call}")
        save(call)


@case("a damaged cache of compiled programs")
def _(place: Path) -> None:
    """A truncated entry and one under another's key: silent, and whole again afterwards."""
    program = """
import jax
from sbeed.training.compile_cache import keep_compiled_programs
keep_compiled_programs()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
print(jax.jit(lambda x: x * 3)(5.0), jax.jit(lambda x: x + 3)(5.0))
"""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    variables |= {"XDG_CACHE_HOME": str(place), "JAX_PLATFORMS": "cpu"}

    def run() -> dict[str, bytes]:
        asked: dict[str, Any] = {"env": variables, "capture_output": True, "text": True}
        done = subprocess.run([sys.executable, "-c", program], check=False, **asked)
        require((done.returncode, done.stdout, done.stderr) == (0, "15.0 8.0\n", ""), f"{done}")
        return {path.name: path.read_bytes() for path in (place / "sbeed" / "xla").glob("*-cache")}

    entries = run()
    require(len(entries) >= 2, f"{len(entries)} entries")
    one, other = sorted(entries)[:2]
    for contents in ((entries[one][:100], b""), (entries[other], entries[one])):
        for name, content in zip((one, other), contents):
            (place / "sbeed" / "xla" / name).write_bytes(content)
        healed = run()
        require(all(len(healed[name]) == len(entries[name]) for name in (one, other)), "it was not healed")


# ------------------------------------------------------------------------------------------------- the last lines

COUNT = len(CASES)
