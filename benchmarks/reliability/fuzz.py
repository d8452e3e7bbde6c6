"""Bytes that no program of ours has written, for every reader of files."""

import json
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT
from benchmarks.reliability.golden import newest
from benchmarks.reliability.runs import copy
from benchmarks.reliability.trial import Trial, attempt, require
from sbeed.storage import run_dir, tensors
from sbeed.storage.tensors import MANIFEST

NAME = "fuzz"
MUST = (
    "read, or refused in one line with a ValueError or an OSError; a sealed file never read as another; ≤ 300 MB more"
)
COUNT = 10_000
LIMIT = 2.0
ABOUT = """\
Mutations of files of ours (`tests/corpus`: bits, bytes, numbers, brackets, pieces of others) for each reader in turn:
manifests as they are and sealed anew, tensors, datasets, Minari's metadata, settings, rows, journals, specs of runs,
figures. Each must be read or refused with a ValueError or an OSError of one line. What is sealed must be refused if a
byte differs. Seconds: of one reading, of the processor.
"""

CORPUS = ROOT / "tests" / "corpus"
_MOST_MEMORY = 300 * 2**20  # bytes more than before the first reading
Reader = Callable[[Path, bytes], None]
_memory = [0]


def notes() -> list[str]:
    return [f"Memory grew by at most {_memory[0] / 2**20:.0f} MB."]


# ------------------------------------------------------------------------------------------------- readers


def _manifest(place: Path, content: bytes) -> None:
    from sbeed.storage.inspect import inspect

    whole = (CORPUS / "manifest" / "model.json").read_bytes()
    (place / "model" / MANIFEST).write_bytes(content)
    inspect(place / "model")
    assert content == whole, "a manifest that is not what was saved was read"


def _sealed(kind: str) -> Reader:
    def read(place: Path, content: bytes) -> None:
        from sbeed.storage.inspect import inspect
        from sbeed.storage.models import _read_card

        manifest = _names(content)
        manifest.pop(tensors.SEAL, None)
        directory = place / kind if kind != "run" else next((place / "run" / "checkpoints").iterdir())
        tensors.write_manifest(directory, manifest)
        inspect(directory)
        if kind == "model":
            _read_card(directory, tensors.read_manifest(directory, 2, "model", oldest=1))
        if kind == "data":
            from sbeed.storage.datasets import load_dataset

            load_dataset(directory)

    return read


def _names(content: bytes) -> dict[str, Any]:
    """JSON's names and values, parsed by us and not by the reader."""
    try:
        found = json.loads(content.decode())
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("no names and values")
    return found


def _tensors(place: Path, content: bytes) -> None:
    from sbeed.storage.datasets import load_dataset

    whole = (newest("data") / "data.safetensors").read_bytes()
    (place / "data" / "data.safetensors").write_bytes(content)
    load_dataset(place / "data")
    assert content == whole, "tensors that are not what was saved were read"


def _minari(place: Path, content: bytes) -> None:
    from sbeed.storage import minari

    (place / "minari" / "data" / "metadata.json").write_bytes(content)
    minari.read(place / "minari")


def _config(place: Path, content: bytes) -> None:
    from sbeed.agents.configs import config_of
    from sbeed.agents.knobs import check_ranges, with_fields
    from sbeed.training.run_settings import read_settings

    (place / "settings" / run_dir.CONFIG).write_bytes(content)
    spec, _ = read_settings(place / "settings")
    if spec.agent in ("sbeed", "pcl", "trpo", "sac"):
        check_ranges(with_fields(config_of(spec.agent, spec.preset)(), spec.fields))


def _rows(place: Path, content: bytes) -> None:
    from sbeed.cli.runs import _is_ours

    (place / "settings" / run_dir.METRICS).write_bytes(content)
    for row in run_dir.read_rows(place / "settings"):
        _is_ours(row)


def _journal(place: Path, content: bytes) -> None:
    from sbeed.experiments import journal

    path = place / "journal.log"
    path.write_bytes(content)
    entries, _ = journal._entries(path, journal._read(path))
    journal._asked(path, entries)


def _spec(place: Path, content: bytes) -> None:
    from sbeed.experiments.spec import read_run

    _ = read_run(_names(content)).id


def _figure(place: Path, content: bytes) -> None:
    from sbeed.reporting.figure_folder import read_results
    from sbeed.reporting.report_page import page

    (place / "figure" / "figure.json").write_bytes(content)
    page(read_results(place / "figure"), place / "figure", "")


READERS: dict[str, Reader] = {
    "manifest": _manifest,
    "sealed-model": _sealed("model"),
    "sealed-data": _sealed("data"),
    "sealed-checkpoint": _sealed("run"),
    "tensors": _tensors,
    "minari": _minari,
    "config": _config,
    "rows": _rows,
    "journal": _journal,
    "spec": _spec,
    "figure": _figure,
}


def prepare(place: Path) -> None:
    """The files around the one that is fuzzed."""
    for kind in ("model", "data", "run", "minari"):
        copy(newest(kind), place / kind)
    for name in ("settings", "figure"):
        (place / name).mkdir()


def read(reader: Reader, place: Path, content: bytes) -> float:
    """Seconds; whatever else than a refusal in one line is raised on."""
    begin, before = time.process_time(), _peak()  # of the processor: what else the machine does counts for nothing
    try:
        reader(place, content)
    except (ValueError, OSError) as error:
        require("\n" not in str(error) or isinstance(error, json.JSONDecodeError), f"more than one line: {error}")
    seconds = time.process_time() - begin
    _memory[0] = max(_memory[0], _peak() - before)
    require(_peak() - before <= _MOST_MEMORY, f"{(_peak() - before) / 2**20:.0f} MB more")
    return seconds


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def corpus(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


# ------------------------------------------------------------------------------------------------- mutations

_PIECES = [
    *(b"null", b"true", b"NaN", b"-Infinity", b"1e400", b"9" * 400, b"-1", b"0", b"1.5", b"18446744073709551616"),
    b'""',
    *(b"[]", b"{}", b"[" * 2000, b'{"a":' * 500, b",", b":", b'"', b"\\", b"\n", b"\0", b"\xff\xfe", b"\xed\xa0\x80"),
    *(b"__class__", b"../../x", b"module:Name-v0", b"\x1b[2J", "\u202e".encode(), b"- " * 300, b"&a", b"*a", b"<<: "),
]  # fmt: skip


def mutated(rng: random.Random, contents: Sequence[bytes]) -> bytes:
    """One of these, changed in one place or in a few."""
    content = bytearray(rng.choice(contents))
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((0, 1, 1, 4, 32, 400)))
        kind = rng.randrange(6)
        if kind == 0 and content:
            content[at % len(content)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at:end]
        elif kind == 2:
            content[at:end] = rng.choice(_PIECES)
        elif kind == 3:
            content[at:at] = content[at:end] * rng.choice((1, 2, 50))
        elif kind == 4:
            other = rng.choice(contents)
            begin = rng.randrange(len(other) + 1)
            content[at:end] = other[begin : begin + rng.choice((1, 8, 64, 512))]
        else:
            digits = [i for i, byte in enumerate(content) if 48 <= byte < 58]
            if digits:
                i = rng.choice(digits)
                content[i : i + 1] = rng.choice((b"0", b"9", b"-1", b"1e9", b"9" * 20, b"[1]", b'"x"', b"null"))
    return bytes(content)


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    names = list(READERS)
    contents = {name: corpus(name) for name in names}
    with tempfile.TemporaryDirectory() as text:
        place = Path(text)
        prepare(place)
        for name in names:  # what is imported once is
            for content in contents[name]:
                read(READERS[name], place, content)
        for seed in seeds:
            name = names[seed % len(names)]
            content = mutated(random.Random(seed), contents[name])
            act = partial(read, READERS[name], place, content)
            yield attempt(f"{name}, {len(content)} bytes", seed, act)
