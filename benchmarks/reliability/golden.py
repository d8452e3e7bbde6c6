"""Files of earlier versions, and of later ones."""

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT
from benchmarks.reliability import runs
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.training import checkpoints, files
from sbeed.training.checkpoints import place_of, steps_of

NAME = "versions"
MUST = "golden files load; newer than the code: refused with both versions named"
COUNT = 12
LIMIT = None
ABOUT = """\
`tests/golden` holds a saved model and a run that was broken off, of every schema there was. Each must be whole to
`sbeed inspect`; the model must act, the run must go on to its end. With a newer schema's number in the manifest, `sbeed
eval`, `resume` and `inspect` must refuse it in one line that names that number and ours. Seconds: of one of these.
"""

GOLDEN = ROOT / "tests/golden"


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    for seed in seeds:
        what, act = list(CASES.items())[seed % len(CASES)]
        yield attempt(what, seed, lambda act=act, seed=seed: _in_copies(act, random.Random(seed)))


def _in_copies(act: Callable[[Path, Path, random.Random], None], rng: random.Random) -> None:
    models, begun = (sorted(GOLDEN.glob(f"{kind}_schema_*")) for kind in ("model", "run"))
    require(bool(models) and bool(begun), f"no golden files in '{GOLDEN}'")
    with tempfile.TemporaryDirectory() as place:
        copies = (runs.copy(rng.choice(some), Path(place) / some[0].name) for some in (models, begun))
        act(*copies, rng)


def _whole(model: Path, run: Path, rng: random.Random) -> None:
    for path in (model, run, place_of(run, steps_of(run)[0])):
        _succeeds("inspect", path)


def _acts(model: Path, run: Path, rng: random.Random) -> None:
    _succeeds("eval", model, "--episodes", "1")


def _goes_on(model: Path, run: Path, rng: random.Random) -> None:
    _succeeds("resume", run)
    _succeeds("eval", run, "--episodes", "1")


def _newer_model(model: Path, run: Path, rng: random.Random) -> None:
    schema = _make_newer(model / files.MANIFEST, files.SCHEMA, rng)
    for command in ("eval", "inspect"):
        _refused(command, model, schema, files.SCHEMA)


def _newer_run(model: Path, run: Path, rng: random.Random) -> None:
    newest = place_of(run, steps_of(run)[-1])
    schema = _make_newer(newest / files.MANIFEST, checkpoints.SCHEMA, rng)
    for command, path in (("resume", run), ("inspect", newest)):
        _refused(command, path, schema, checkpoints.SCHEMA)


CASES: dict[str, Callable[[Path, Path, random.Random], None]] = {
    "the golden files are whole": _whole,
    "the golden model acts": _acts,
    "the golden run goes on": _goes_on,
    "a newer model is refused": _newer_model,
    "a newer run is refused": _newer_run,
}


def _make_newer(path: Path, schema: int, rng: random.Random) -> int:
    newer = schema + rng.randrange(1, 1000)
    manifest: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "schema": newer, "new in it": rng.random()}, indent=1))
    return newer


def _succeeds(*words: Any) -> None:
    said = runs.sbeed(*words)
    require((said.code, said.err) == (0, ""), f"{words[0]}: exit code {said.code}: {said.err}")


def _refused(command: str, path: Path, newer: int, ours: int) -> None:
    said = runs.sbeed(command, path)
    require((said.code, said.err.count("\n")) == (2, 1), f"{command}: exit code {said.code}: {said.err}")
    for part in (f"schema {newer}", f"schema {ours}"):
        require(part in said.err, f"{part!r} is not in {said.err!r}")
