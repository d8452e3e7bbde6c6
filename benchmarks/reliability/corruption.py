"""Checkpoints that are not what was saved."""

import json
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reliability import runs
from benchmarks.reliability.trial import Clock, Trial, attempt, require
from sbeed.storage.checkpoints import Checkpoint, place_of, steps_of
from sbeed.storage.tensors import MANIFEST, DamagedModel

NAME = "corruption"
MUST = "all found, file and tensor named, no crash"
COUNT = 5000
LIMIT = 2.0
ABOUT = """\
One file of a checkpoint (state, manifest or a part of the replay) is changed: a bit flipped, cut short, made longer,
512 bytes zeroed, two tensors of one shape exchanged, bytes exchanged with another place, the file exchanged with
another one or taken from another checkpoint. Going on from it must be refused with a `DamagedModel` of one line that
names the file and, where numbers of a tensor were changed, a tensor that was. Manifests too: what changes no meaning,
such as a blank more, is found like everything else. Seconds: to be refused.
"""

STEPS, PAGE = 100, 512


class Change(NamedTuple):
    what: str
    files: dict[Path, bytes]  # what they become
    tensors: frozenset[str] = frozenset()  # of which one must be named; empty where only the file can be


class Target(NamedTuple):
    """A file, and where in it each tensor's numbers lie."""

    path: Path
    content: bytes
    tensors: dict[str, tuple[int, int]]


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    from sbeed.training.run import make_trainer
    from sbeed.training.run_settings import read_settings

    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        runs.break_off(run, "Pendulum-v1", 72, steps=STEPS)
        step = steps_of(run)[-1]
        spec, members = read_settings(run)
        with closing(make_trainer(spec, seeds=members)) as trainer:

            def restore() -> None:
                trainer.restore(Checkpoint(run, step))

            restore()  # it is whole; and what is compiled once is compiled
            targets = [_target(path) for path in _files(run, step)]
            for seed in seeds:
                change = draw(random.Random(seed), targets, run)
                yield attempt(change.what, seed, lambda change=change: _refused(change, restore))


def _files(run: Path, step: int) -> list[Path]:
    parts = [run / "replay" / part.name for part in Checkpoint(run, step).parts]
    return [place_of(run, step) / "state.safetensors", place_of(run, step) / MANIFEST, *parts]


def _target(path: Path) -> Target:
    content = path.read_bytes()
    if path.name == MANIFEST:
        return Target(path, content, {})
    length = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:length])
    places = {name: one["data_offsets"] for name, one in header.items() if name != "__metadata__"}
    return Target(path, content, {name: (length + a, length + b) for name, (a, b) in places.items()})


def _refused(change: Change, restore: Callable[[], None]) -> float:
    before, clock = {path: path.read_bytes() for path in change.files}, Clock()
    for path, content in change.files.items():
        path.write_bytes(content)
    try:
        with clock.running():
            restore()
    except DamagedModel as error:
        message = str(error)
    else:
        require(False, "it was not noticed")
    finally:
        for path, content in before.items():
            path.write_bytes(content)
    require("\n" not in message, f"more than one line: {message}")
    # Of an exchange either file may be found first.
    named = any(str(path) in message for path in change.files)
    require(named, f"{[path.name for path in change.files]} not named: {message}")
    tensor = not change.tensors or any(f"tensor {name} " in message for name in change.tensors)
    require(tensor, f"none of {sorted(change.tensors)} named: {message}")
    return clock.seconds


# ------------------------------------------------------------------------------------------------- changes


def draw(rng: random.Random, targets: Sequence[Target], run: Path) -> Change:
    """A change that changes something."""
    while True:
        target = rng.choice(targets)
        change = rng.choice(CHANGES)(rng, target, targets, run)
        if change is not None and any(path.read_bytes() != content for path, content in change.files.items()):
            return change


def _flipped(rng: random.Random, target: Target, *_: Any) -> Change:
    content = bytearray(target.content)
    # A file's head is a small part of it: half of the flips are for it.
    at = rng.randrange(min(len(content), rng.choice((400, len(content)))))
    content[at] ^= 1 << rng.randrange(8)
    return _change("a flipped bit", target, bytes(content))


def _cut(rng: random.Random, target: Target, *_: Any) -> Change:
    return _change("cut short", target, target.content[: rng.randrange(len(target.content))])


def _longer(rng: random.Random, target: Target, *_: Any) -> Change:
    return _change("made longer", target, target.content + rng.choice((b"\0", b" ", b"\n", rng.randbytes(100))))


def _zeroed(rng: random.Random, target: Target, *_: Any) -> Change:
    begin = rng.randrange(0, len(target.content), PAGE)
    page = bytes(len(target.content[begin : begin + PAGE]))
    return _change("zeroed", target, target.content[:begin] + page + target.content[begin + PAGE :])


def _moved(rng: random.Random, target: Target, *_: Any) -> Change:
    size = rng.randrange(1, 64)
    a, b = sorted(rng.randrange(len(target.content) - size) for _ in range(2))
    if b - a < size:
        b = min(a + size, len(target.content) - size)
    return _change("exchanged bytes", target, _swap(target.content, (a, a + size), (b, b + size)))


def _exchanged_tensors(rng: random.Random, target: Target, *_: Any) -> Change | None:
    pairs = [
        (one, other)
        for one, (a, b) in target.tensors.items()
        for other, (c, d) in target.tensors.items()
        if one < other and b - a == d - c > 0
    ]
    if not pairs:
        return None
    one, other = rng.choice(pairs)
    return _change("exchanged tensors", target, _swap(target.content, target.tensors[one], target.tensors[other]))


def _exchanged_files(rng: random.Random, target: Target, targets: Sequence[Target], run: Path) -> Change:
    other = rng.choice(targets)
    return Change("exchanged files", {target.path: other.content, other.path: target.content})


def _from_another(rng: random.Random, target: Target, targets: Sequence[Target], run: Path) -> Change | None:
    older = run / "checkpoints" / place_of(run, steps_of(run)[0]).name / target.path.name
    return _change("from another checkpoint", target, older.read_bytes()) if older.exists() else None


def _blank(rng: random.Random, target: Target, *_: Any) -> Change | None:
    """A manifest that says the same."""
    if target.path.name != MANIFEST:
        return None
    said = json.loads(target.content)
    rewritten = rng.choice(
        (json.dumps(said), json.dumps(said, indent=2), json.dumps(dict(reversed(said.items())), indent=1))
    )
    return _change("rewritten", target, rewritten.encode())


CHANGES = (_flipped, _cut, _longer, _zeroed, _moved, _exchanged_tensors, _exchanged_files, _from_another, _blank)


def _change(what: str, target: Target, content: bytes) -> Change:
    """A tensor need be named where the file has its length and its head, and numbers differ."""
    tensors = frozenset[str]()
    if target.tensors and len(content) == len(target.content):
        head = min(begin for begin, _ in target.tensors.values())
        if content[:head] == target.content[:head]:
            tensors = frozenset(n for n, (a, b) in target.tensors.items() if content[a:b] != target.content[a:b])
    return Change(f"{what}, {target.path.name}", {target.path: content}, tensors)


def _swap(content: bytes, one: tuple[int, int], other: tuple[int, int]) -> bytes:
    (a, b), (c, d) = sorted((one, other))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]
