"""Files of earlier versions, and of later ones."""

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.processes import ROOT
from benchmarks.reliability import runs
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage import checkpoints
from sbeed.storage.checkpoints import place_of, steps_of
from sbeed.storage.tensor_folder import DATASET, MODEL
from sbeed.storage.tensors import MANIFEST

NAME = "versions"
MUST = "golden files load; of sbeed 0.1, or newer than the code: refused in one line that says so"
COUNT = 16
LIMIT = None
ABOUT = """\
`tests/golden` holds a saved model, a run that was broken off and a dataset, of every schema there was. Each must be
whole to `sbeed inspect`; the model must act, the run must go on to its end, the dataset must be sound. The model and
the run of sbeed 0.1, whose learner is gone, must be refused in one line that says what to do instead. With a newer
schema's number in the manifest, `sbeed eval`, `resume`, `data show` and `inspect` must refuse it in one line that names
that number and ours. Seconds: of one of these.
"""

GOLDEN = ROOT / "tests/golden"


def newest(kind: str) -> Path:
    """The golden files of that kind which this version writes."""
    return sorted(GOLDEN.glob(f"{kind}_schema_*"))[-1]


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    for seed in seeds:
        what, act = list(CASES.items())[seed % len(CASES)]
        yield attempt(what, seed, lambda act=act, seed=seed: _in_copies(act, random.Random(seed)))


class Golden(NamedTuple):
    """Copies, one of each kind."""

    model: Path
    run: Path
    data: Path


def _in_copies(act: Callable[[Golden, random.Random], None], rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as place:
        act(Golden(*(runs.copy(newest(kind), Path(place) / kind) for kind in Golden._fields)), rng)


def _whole(golden: Golden, rng: random.Random) -> None:
    for path in (*golden, place_of(golden.run, steps_of(golden.run)[0])):
        _succeeds("inspect", path)


def _acts(golden: Golden, rng: random.Random) -> None:
    _succeeds("eval", golden.model, "--episodes", "1")


def _goes_on(golden: Golden, rng: random.Random) -> None:
    _succeeds("resume", golden.run)
    _succeeds("eval", golden.run, "--episodes", "1")


def _is_sound(golden: Golden, rng: random.Random) -> None:
    _succeeds("data", "show", golden.data)


def _former(golden: Golden, rng: random.Random) -> None:
    for kind, command in (("model", "eval"), ("run", "resume")):
        copy = runs.copy(GOLDEN / f"{kind}_schema_1", golden.model.with_name(f"former {kind}"))
        _succeeds("inspect", copy)
        said = runs.sbeed(command, copy)
        require((said.code, said.err.count("\n")) == (2, 1), f"{command}: exit code {said.code}: {said.err}")
        for part in ("sbeed 0.1", "train again with this version"):
            require(part in said.err, f"{part!r} is not in {said.err!r}")


def _newer_model(golden: Golden, rng: random.Random) -> None:
    schema = _make_newer(golden.model / MANIFEST, MODEL.schema, rng)
    for command in ("eval", "inspect"):
        _refused([command], golden.model, schema, MODEL.schema)


def _newer_run(golden: Golden, rng: random.Random) -> None:
    newest = place_of(golden.run, steps_of(golden.run)[-1])
    schema = _make_newer(newest / MANIFEST, checkpoints.SCHEMA, rng)
    for command, path in (("resume", golden.run), ("inspect", newest)):
        _refused([command], path, schema, checkpoints.SCHEMA)


def _newer_data(golden: Golden, rng: random.Random) -> None:
    schema = _make_newer(golden.data / MANIFEST, DATASET.schema, rng)
    for words in (["data", "show"], ["inspect"]):
        _refused(words, golden.data, schema, DATASET.schema)


CASES: dict[str, Callable[[Golden, random.Random], None]] = {
    "the golden files are whole": _whole,
    "the golden model acts": _acts,
    "the golden run goes on": _goes_on,
    "the golden dataset is sound": _is_sound,
    "what sbeed 0.1 left is whole and refused": _former,
    "a newer model is refused": _newer_model,
    "a newer run is refused": _newer_run,
    "a newer dataset is refused": _newer_data,
}


def _make_newer(path: Path, schema: int, rng: random.Random) -> int:
    newer = schema + rng.randrange(1, 1000)
    manifest: dict[str, Any] = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "schema": newer, "new in it": rng.random()}, indent=1))
    return newer


def _succeeds(*words: Any) -> None:
    said = runs.sbeed(*words)
    require((said.code, said.err) == (0, ""), f"{words[0]}: exit code {said.code}: {said.err}")


def _refused(words: Sequence[str], path: Path, newer: int, ours: int) -> None:
    said = runs.sbeed(*words, path)
    require((said.code, said.err.count("\n")) == (2, 1), f"{words[0]}: exit code {said.code}: {said.err}")
    for part in (f"schema {newer}", f"schema {ours}"):
        require(part in said.err, f"{part!r} is not in {said.err!r}")
