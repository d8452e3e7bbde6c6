"""Convert the state of a run to plain data and named arrays, and back. The content of a file is checked first."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from sbeed.collect.actor import Mark
from sbeed.storage.tensors import DamagedModel
from sbeed.types import EnvSpec

T = TypeVar("T")


class Counters(NamedTuple):
    """The counters of a trainer; the lists have an entry for each member."""

    step: int
    written: int  # to each replay, since it last forgot
    prepared: bool
    explores: bool
    episodes: list[int]
    trajectories: list[int]
    recent: list[list[float]]
    metrics: dict[str, list[float | None]]  # None for the lost
    lost: dict[str, list]  # {number of a member: [step, name of what was not finite]}
    seconds: dict[str, float]


def as_json(data: Any) -> Any:
    """Convert tuples to lists, as a file returns them."""
    return json.loads(json.dumps(data, allow_nan=False))


def read_counters(found: Any, members: int) -> Counters:
    with _complaints():
        counters = Counters(**found)
        counts = (counters.episodes, counters.trajectories)
        for column in (*counts, counters.recent, *counters.metrics.values()):
            _require(isinstance(column, list) and len(column) == members, "a list is not one for each member")
        _require(_is_count(counters.written, 2**31), f"{counters.written!r} is no count of transitions")
        for count in (counters.step, *counts[0], *counts[1]):
            _require(_is_count(count), f"{count!r} is no count")
        for number in (*chain(*counters.recent), *counters.seconds.values()):
            _require(isinstance(number, float | int), f"{number!r} is no number")
        for values in counters.metrics.values():
            _require(all(isinstance(one, float | int | None) for one in values), f"{values!r} are no numbers")
        for member, (step, name) in counters.lost.items():
            told = 0 <= int(member) < members and _is_count(step) and isinstance(name, str)
            _require(told, "a lost member is not named")
        return counters


def check_same_run(found: Any, here: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first setting in which a checkpoint's run differs from this one.

    defaults: those of the config's fields. A checkpoint without a field is older than the field, and behaves as its
    default does.
    """
    with _complaints():
        known = {**defaults, **found, **found["config"]}
    for name, value in {**here, **here["config"]}.items():
        if name != "config" and known.get(name) != value:
            raise ValueError(
                f"the checkpoint is of another run: its {name} is {known.get(name)!r}, here it is {value!r}"
            )


# ------------------------------------------------------------------------------------------------- actors


def marks_apart(marks: Sequence[Mark]) -> tuple[list[dict[str, Any]], list[dict[str, np.ndarray]]]:
    """Separate the marks into plain data and arrays."""
    numbers = [
        {
            **{"episodes": mark.episodes, "random": list(mark.random), "total": mark.total},
            **{"taken": len(mark.actions), "type": str(mark.actions.dtype)},
        }
        for mark in marks
    ]
    return numbers, [{"actions": mark.actions, "noise": mark.noise, "obs": mark.obs} for mark in marks]


def arrays_like(numbers: Any, spec: EnvSpec, step: int, members: int) -> list[dict[str, Any]]:
    """The shapes and types of the arrays that go with that plain data. An episode has no more actions than its run."""
    with _complaints():
        _require(len(numbers) == members, "actors are not one for each member")
        for one in numbers:
            _require(_is_count(one["taken"]) and one["taken"] <= step, "an episode is longer than its run")
            _require(one["type"] in ("float32", "float64", "int64"), f"{one['type']!r} is no type of an action")
        shape, like = _action_shape(spec), jax.ShapeDtypeStruct
        return [
            {
                "actions": like((one["taken"], *shape), np.dtype(one["type"])),
                "noise": like(shape, np.dtype(np.float32)),
                "obs": like((spec.observation_size,), np.dtype(np.float32)),
            }
            for one in numbers
        ]


def marks_together(numbers: Any, arrays: Sequence[Mapping[str, np.ndarray]]) -> list[Mark]:
    with _complaints():
        marks = [
            Mark(one["episodes"], tuple(one["random"]), one["total"], **some) for one, some in zip(numbers, arrays)
        ]
        for mark in marks:
            _require(_is_count(mark.episodes) and mark.episodes > 0, "an episode has no number")
            _require(isinstance(mark.total, float | int), "a return is no number")
            state, increment, *half = mark.random
            _require(_is_count(state, 2**128) and _is_count(increment, 2**128), "a random stream is none")
            _require(len(half) == 2 and all(_is_count(word, 2**32) for word in half), "a random stream is none")
        return marks


def _action_shape(spec: EnvSpec) -> tuple[int, ...]:
    return (spec.action_size,) if spec.action_kind == "box" else ()


def without(lost: Mapping[int, Any], trees: Sequence[T]) -> list[T]:
    """Replace the numbers of diverged members, which need not be finite and are not used again, by zeros."""
    zeros: Callable[[Any], Any] = np.zeros_like
    return [jax.tree.map(zeros, tree) if i in lost else tree for i, tree in enumerate(trees)]


def _is_count(value: Any, below: int = 2**63) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below


def _require(holds: bool, complaint: str) -> None:
    if not holds:
        raise ValueError(complaint)


@contextmanager
def _complaints() -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedModel(f"the checkpoint's manifest does not say where the run stood ({error})") from None
