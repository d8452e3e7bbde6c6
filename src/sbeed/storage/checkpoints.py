"""Checkpoints: all that the rest of a run depends on, so that a killed run continues as if nothing had happened.

checkpoints/step_000001200/state.safetensors             everything but the replay
                           manifest.json                 describes the checkpoint and every file that it needs
replay/part_000000800_000001200.safetensors              transitions 800 to 1199 of every member, which never change

A checkpoint writes only the transitions since the one before it. Every file is written under a temporary name, synced
to the disk, and then renamed. So a file with its final name is whole, whenever the writer was killed.
"""

import re
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sbeed.storage import tensors
from sbeed.storage.disk_errors import explained_disk_errors
from sbeed.storage.safe_write import is_leftover, sync
from sbeed.storage.tensors import MANIFEST, DamagedModel, Description

SCHEMA = 2  # 1: sbeed 0.1; runs of other agents than its sbeed and pcl go on
CHECKPOINTS, REPLAY, STATE = "checkpoints", "replay", "state.safetensors"
KEPT = 2  # the newest; with a single one, damage to it would end the run


class Snapshot(NamedTuple):
    """The state of a run between two iterations."""

    step: int
    about: dict[str, Any]  # plain data
    state: Any  # a pytree of arrays
    held: int  # transitions in each member's replay, the newest of the run
    newest: Callable[[int], Any]  # n -> the newest n of them, [members, n, ...]; valid until the next iteration


class Part(NamedTuple):
    """A file with transitions first, ..., last - 1 of every member, counted from the start of the run."""

    first: int
    last: int
    file: Description

    @property
    def name(self) -> str:
        return f"part_{self.first:09d}_{self.last:09d}.safetensors"


class Checkpoint:
    """A checkpoint on the disk. Reading it checks it: the manifest at once, each tensor file when it is read."""

    step: int
    about: dict[str, Any]
    asked: bool  # the user asked for it, so it is never removed
    held: int
    parts: tuple[Part, ...]
    file: Description  # of the state
    versions: dict[str, Any]

    def __init__(self, run: Path, step: int):
        self.run, self.path = Path(run), place_of(run, step)
        _refuse_links(self.path, self.path.parent, self.run / REPLAY)
        manifest = tensors.read_manifest(self.path, SCHEMA, "checkpoint", oldest=1, sealed=True)
        try:
            self.step, self.about, self.asked = manifest["step"], manifest["about"], manifest["asked"]
            self.file, self.versions = manifest["file"], manifest["versions"]
            self.held, self.parts = manifest["held"], tuple(Part(**part) for part in manifest["parts"])
            whole = all(isinstance(n, int) for part in self.parts for n in part[:2])
            if self.step != step or not whole or not _covers(self.parts, self.step, self.held):
                raise ValueError("its numbers contradict each other")
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedModel(f"'{self.path / MANIFEST}' is not a checkpoint's ({error})") from None

    def state(self, like: Any) -> Any:
        """Read the state.   like: a tree of the same shapes and types"""
        return tensors.read_tensors(self.path / STATE, self.file, like)

    def newest(self, like: Any) -> Any:
        """Read the replays, [members, held, ...].   like: one transition of every member, [members, ...]"""
        import jax

        parts = [self._read(part, like) for part in self.parts]
        if not parts:
            return jax.tree.map(lambda one: np.zeros((one.shape[0], 0, *one.shape[1:]), one.dtype), like)
        over = self.step - self.held - self.parts[0].first  # the replay has forgotten these of the oldest part
        return jax.tree.map(lambda *rows: np.concatenate(rows, axis=1)[:, over:], *parts)

    def _read(self, part: Part, like: Any) -> Any:
        import jax

        count = part.last - part.first
        rows = jax.tree.map(lambda one: jax.ShapeDtypeStruct((one.shape[0], count, *one.shape[1:]), one.dtype), like)
        return tensors.read_tensors(self.run / REPLAY / part.name, part.file, rows)


def steps_of(run: Path) -> list[int]:
    """The steps of a run's checkpoints, ascending."""
    found = (step_of(path) for path in (Path(run) / CHECKPOINTS).glob("step_*"))
    return sorted(step for step in found if step is not None)


def step_of(path: Path) -> int | None:
    """The step in a checkpoint's name."""
    match = re.fullmatch(r"step_(\d{9,18})", path.name)
    return int(match[1]) if match else None


class Checkpoints:
    """Write the checkpoints of a run. The caller must own the run's directory (`lock`)."""

    def __init__(self, run: Path, resumed: int = 0, changed: bool = False):
        """resumed: the step from which the run continues; later checkpoints are removed, because the run repeats them.

        changed: the newest transition has changed since the checkpoint of that step.
        """
        self.run, self._changed = Path(run), changed
        for name in (CHECKPOINTS, REPLAY):
            _refuse_links(self.run / name)
            (self.run / name).mkdir(parents=True, exist_ok=True)
        for step in steps_of(self.run):
            if step > resumed:
                self._remove(place_of(self.run, step))
        self._there: dict[int, Checkpoint] = {}
        for step in steps_of(self.run):
            try:
                self._there[step] = Checkpoint(self.run, step)
            except DamagedModel as error:  # an older one, or the run would not be where it is
                warnings.warn(f"{error}; the run goes on without it", RuntimeWarning, stacklevel=2)
        self._tidy()

    def save(self, snapshot: Snapshot, asked: bool = False) -> Path:
        """Write a checkpoint; if a number is not finite, raise FloatingPointError and write nothing.

        asked: never remove it
        """
        place = place_of(self.run, snapshot.step)
        if snapshot.step in self._there:
            return place
        known, first = self._known(snapshot)
        state = tensors.named_tensors(snapshot.state)
        rows = tensors.named_tensors(snapshot.newest(snapshot.step - first)) if first < snapshot.step else {}
        for some in (state, rows):
            _check_finite(snapshot.step, some)
        with self._room_for(snapshot.step, sum(one.nbytes for some in (state, rows) for one in some.values())):
            self._write(snapshot, asked, state, [*known, *self._new_part(first, snapshot.step, rows)])
        self._there[snapshot.step], self._changed = Checkpoint(self.run, snapshot.step), False
        for step in sorted(self._there)[:-KEPT]:
            if not self._there[step].asked:
                self._remove(self._there.pop(step).path)
        self._tidy()
        return place

    def _write(self, snapshot: Snapshot, asked: bool, state: dict[str, np.ndarray], parts: list[Part]) -> None:
        place = place_of(self.run, snapshot.step)
        new = place.with_name(f".{place.name}")
        shutil.rmtree(new, ignore_errors=True)  # left by an attempt that filled the disk
        new.mkdir()
        manifest = {
            "schema": SCHEMA,
            "step": snapshot.step,
            "asked": asked,
            "about": snapshot.about,
            "versions": tensors.versions(),
            "file": tensors.write_tensors(new / STATE, state),
            "held": snapshot.held,
            "parts": [part._asdict() for part in parts],
        }
        tensors.write_manifest(new, manifest)
        new.rename(place)
        sync(place.parent)

    def _known(self, snapshot: Snapshot) -> tuple[list[Part], int]:
        """The parts of the snapshot's replay that are on the disk, and the first transition that is not."""
        oldest, last = snapshot.step - snapshot.held, max(self._there, default=0)
        known = [part for part in self._there[last].parts if part.last > oldest] if self._there else []
        if self._changed:
            known = known[:-1]  # a part never changes: its transitions are written again, into the new part
        return known, known[-1].last if known else oldest

    def _new_part(self, first: int, last: int, rows: dict[str, np.ndarray]) -> list[Part]:
        """Write the part with the transitions since the last checkpoint, if there are any."""
        if not rows:
            return []
        part = Part(first, last, {})
        return [part._replace(file=tensors.write_tensors(self.run / REPLAY / part.name, rows))]

    @contextmanager
    def _room_for(self, step: int, needed: int) -> Iterator[None]:
        """Remove half-written files if the disk is full."""
        last = f"the last one is of step {max(self._there)}" if self._there else "there is none before it"
        with explained_disk_errors(f"checkpoint of step {step}", self.run, needed, f"; {last}"):
            try:
                yield
            except OSError:
                with suppress(OSError):
                    if place_of(self.run, step).exists():  # renamed, but perhaps not synced
                        self._remove(place_of(self.run, step))
                    self._tidy()
                raise

    def _remove(self, place: Path) -> None:
        # Renamed first: a checkpoint with its own name is whole.
        old = place.with_name(f".{place.name}")
        shutil.rmtree(old, ignore_errors=True)
        place.rename(old)
        shutil.rmtree(old)

    def _tidy(self) -> None:
        """Remove parts that no checkpoint needs, and half-written files of killed processes."""
        needed = {part.name for checkpoint in self._there.values() for part in checkpoint.parts}
        for path in (self.run / REPLAY).iterdir():
            ours = re.fullmatch(r"\.?part_\d+_\d+\.safetensors", path.name) or is_leftover(path.name)
            if ours and path.name not in needed:
                path.unlink()
        for path in (self.run / CHECKPOINTS).glob(".step_*"):
            shutil.rmtree(path)


def place_of(run: Path, step: int) -> Path:
    return Path(run) / CHECKPOINTS / f"step_{step:09d}"


def _covers(parts: tuple[Part, ...], step: int, held: int) -> bool:
    """True if the parts hold the run's newest transitions without a gap, and no part is superfluous."""
    if not parts or not 0 < held <= step:
        return not parts and held == 0 <= step
    joined = all(a.last == b.first for a, b in pairwise(parts))
    ends = 0 <= parts[0].first <= step - held < parts[0].last and parts[-1].last == step
    return joined and ends and all(part.first < part.last for part in parts)


def _refuse_links(*paths: Path) -> None:
    for path in paths:
        if path.is_symlink():
            raise DamagedModel(f"'{path}' is a link, which may lead anywhere: it is not followed")


def _check_finite(step: int, named: dict[str, np.ndarray]) -> None:
    for name, tensor in named.items():
        if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
            raise FloatingPointError(f"{name} is not finite after {step} steps: no checkpoint is written")
