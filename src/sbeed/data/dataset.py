"""A fixed set of transitions with the ends of its episodes; the paper's theory calls it one off-policy path.

Observations and actions are in the environment's own terms; `transitions` gives them as agents see them. Every Dataset
is checked: bad data are refused with their field, episode and index, all counted from 0.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from sbeed.envs.spaces import encode, unit_action
from sbeed.envs.task import Task
from sbeed.types import EnvSpec, Transition

FIELDS = Transition._fields
# d3rlpy's names of the fields; next observations are optional there.
D3RLPY = {"observations": "obs", "actions": "action", "rewards": "reward", "next_observations": "next_obs"}
ENDS = ("terminals", "timeouts")
MOST = 2**31 - 1  # transitions: a replay counts them in int32
SLACK = 1e-5  # of its range that rounding may carry an action out of it


class BadData(ValueError):  # noqa: N818  reads as what it says
    """Data that cannot be learned from; the message is one line."""

    def __init__(self, field: str, complaint: str, *, index: int | None = None, last: Any = None):
        self.field, self.index, self.episode = field, index, None
        where = field
        if index is not None:
            ends = np.flatnonzero(np.asarray(last[:index], bool)) if last is not None else np.zeros(0, int)
            self.episode, first = len(ends), int(ends[-1]) + 1 if len(ends) else 0
            where = f"{field}[{index}] (episode {self.episode}, step {index - first})"
        super().__init__(f"{where}: {complaint}")


@dataclass(frozen=True, eq=False)
class Dataset:
    """Transitions in the order in which they happened; `last` ends an episode, by termination or otherwise.

    origin: how the data were made, as plain data.
    """

    name: str  # of the environment, for people to read: nothing is ever made of it
    observation_space: spaces.Space
    action_space: spaces.Space
    data: Transition  # numpy arrays, [N, ...]
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_spaces(self.observation_space, self.action_space)
        _check(self)

    def __len__(self) -> int:
        return len(self.data.reward)

    @property
    def spec(self) -> EnvSpec:
        discrete = isinstance(self.action_space, spaces.Discrete)
        sizes = [spaces.flatdim(space) for space in (self.observation_space, self.action_space)]
        return EnvSpec(self.name, sizes[0], "discrete" if discrete else "box", sizes[1], None)

    def task(self, name: str | None = None) -> Task:
        """The task of the environment that the data come from.   name: the environment to evaluate in, if any"""
        return Task(self.spec, self.observation_space, self.action_space, name)

    @cached_property
    def starts(self) -> np.ndarray:
        """The index of each episode's first transition."""
        return np.concatenate([[0], np.flatnonzero(self.data.last)[:-1] + 1])

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(np.append(self.starts, len(self)))

    @property
    def returns(self) -> np.ndarray:
        """The undiscounted return of each episode."""
        return np.add.reduceat(np.asarray(self.data.reward, np.float64), self.starts)

    @property
    def single_path(self) -> bool:
        """True if no episode ends before the data do."""
        return len(self.starts) == 1

    def transitions(self) -> Transition:
        """The transitions as agents see them: observations as vectors, actions in [-1, 1] or counted from 0."""
        d: Any = self.data
        obs, next_obs = (encode(self.observation_space, x) for x in (d.obs, d.next_obs))
        return d._replace(obs=obs, action=unit_action(self.action_space, d.action), next_obs=next_obs)


# ------------------------------------------------------------------------------------------------- arrays of others


def from_arrays(
    arrays: Mapping[str, Any],
    *,
    observation_space: spaces.Space | None = None,
    action_space: spaces.Space | None = None,
    name: str = "dataset",
    origin: Mapping[str, Any] | None = None,
) -> Dataset:
    """Make a Dataset of a dictionary of arrays, with the names of a Transition or with d3rlpy's.

    d3rlpy's are observations, actions, rewards, terminals and timeouts. Missing next_observations are those of the step
    after; a step at a time limit has none, and is left out. Spaces that are not given are inferred from the data:
    whole numbers are Discrete, other actions a Box of [-1, 1], or of their own range where they exceed it.
    """
    named = {key: _numbers(key, value) for key, value in arrays.items()}
    if set(named) == set(FIELDS):
        last = named["last"]
    else:
        named = _from_d3rlpy(named)
        last = named.pop("_last_for_messages")
    flags = {key: _flags(key, named[key], last) for key in ("terminated", "last")}
    seen = observation_space or _observations_like(named["obs"], named["next_obs"])
    done = action_space or _actions_like(named["action"])
    check_spaces(seen, done)
    columns: dict[str, Any] = {key: _typed(key, named[key], kind, last) for key, kind in _kinds(seen, done).items()}
    return Dataset(name, seen, done, Transition(**{**columns, **flags}), dict(origin or {}))


def _from_d3rlpy(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rename d3rlpy's arrays to the fields of a Transition."""
    known, must = {*D3RLPY, *ENDS}, {*D3RLPY, *ENDS} - {"next_observations", "timeouts"}
    if not must <= set(given) <= known:
        wrong = sorted(must - set(given) or set(given) - known)[0]
        missing = wrong in must
        raise BadData(
            wrong, f"{'is missing' if missing else 'is not a known field'}; the names are {', '.join(FIELDS)}"
        )
    count = _same_length(given, given["terminals"])
    terminals = given["terminals"]
    timeouts = given.get("timeouts", np.zeros(count, bool))
    terminated, cut = (_flags(key, x, terminals) for key, x in (("terminals", terminals), ("timeouts", timeouts)))
    last = terminated | cut
    if not last[-1]:
        raise BadData("terminals", "the data end before their last episode does", index=count - 1, last=last)
    columns = {ours: given[theirs] for theirs, ours in D3RLPY.items() if theirs in given}
    kept = np.ones(count, bool)
    if "next_obs" not in columns:
        obs = columns["obs"]
        # After a termination nothing counts; after a time limit the state reached would, and is unknown.
        columns["next_obs"] = np.where(_column(last, obs.ndim), obs, np.roll(obs, -1, axis=0))
        kept = terminated | ~last
        last = last | np.append(~kept[1:], False)  # the step before one that is left out is its episode's last
        if not kept.any():
            raise BadData("timeouts", "every step is at a time limit: without next_observations none is left")
    columns |= {"terminated": terminated, "last": last}
    return {key: x[kept] for key, x in columns.items()} | {"_last_for_messages": last[kept]}


def _column(x: np.ndarray, dimensions: int) -> np.ndarray:
    return x.reshape(-1, *(1,) * (dimensions - 1))


def _numbers(key: str, value: Any) -> np.ndarray:
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        raise BadData(key, f"must be an array of numbers, got {found.dtype}")
    if found.ndim == 0:
        raise BadData(key, "must have an entry for each transition, got a number")
    return found


def _flags(key: str, x: np.ndarray, last: np.ndarray) -> np.ndarray:
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1:
        raise BadData(key, f"must have the shape [transitions], got {list(x.shape)}")
    _refuse(key, (x != 0) & (x != 1), "is neither true nor false", last)
    return x.astype(bool)


def _typed(key: str, x: np.ndarray, kind: tuple[np.dtype, tuple[int, ...]], last: np.ndarray) -> np.ndarray:
    dtype, shape = kind
    if x.ndim == 2 and x.shape[1] == 1 and shape == ():
        x = x[:, 0]
    if x.shape[1:] != shape:
        raise BadData(key, f"must have the shape [transitions{''.join(f', {n}' for n in shape)}], got {list(x.shape)}")
    if dtype.kind == "i" and x.dtype.kind == "f":
        _refuse(key, x != np.round(x), "is not a whole number", last)
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is found as not finite
        return np.ascontiguousarray(x, dtype)


def _observations_like(x: np.ndarray, after: np.ndarray) -> spaces.Space:
    if x.dtype.kind in "iu" and x.ndim == 1 and x.size:
        return spaces.Discrete(max(int(x.max()), int(after.max()), 0) + 1)
    return spaces.Box(-np.inf, np.inf, x.shape[1:] or (1,), np.float32)


def _actions_like(x: np.ndarray) -> spaces.Space:
    if x.dtype.kind in "iu" and x.size:
        return spaces.Discrete(max(int(x.max()), 0) + 1)
    if x.ndim != 2:
        raise BadData("action", f"must be whole numbers, or have the shape [transitions, size], got {list(x.shape)}")
    finite = np.where(np.isfinite(x), x, 0)
    low, high = np.minimum(finite.min(0, initial=-1), -1), np.maximum(finite.max(0, initial=1), 1)
    return spaces.Box(low.astype(np.float32), high.astype(np.float32))


# ------------------------------------------------------------------------------------------------- checks


def check_spaces(seen: Any, done: Any) -> None:
    """Raise BadData for spaces that no agent can act in."""
    if not (isinstance(seen, spaces.Discrete) or (isinstance(seen, spaces.Box) and len(seen.shape) == 1)):
        raise BadData("observation_space", f"must be Discrete or a Box of rank 1, got {seen}")
    box = isinstance(done, spaces.Box) and len(done.shape) == 1 and done.is_bounded()
    if not (isinstance(done, spaces.Discrete) or (box and np.issubdtype(done.dtype, np.floating))):
        raise BadData("action_space", f"must be Discrete or a bounded Box of floats of rank 1, got {done}")


def kinds(seen: spaces.Space, done: spaces.Space) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """The type and the shape of one entry of every field."""
    flag = np.dtype(bool), ()
    return {**_kinds(seen, done), "terminated": flag, "last": flag}


def _kinds(seen: spaces.Space, done: spaces.Space) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    number, whole = np.dtype(np.float32), np.dtype(np.int32)
    one, other = (
        (whole, ()) if isinstance(space, spaces.Discrete) else (number, space.shape or ()) for space in (seen, done)
    )
    return {"obs": one, "action": other, "reward": (number, ()), "next_obs": one}


def _check(dataset: Dataset) -> None:
    d, last = dataset.data._asdict(), np.asarray(dataset.data.last)
    count = _same_length(d, last)
    for key, (dtype, shape) in kinds(dataset.observation_space, dataset.action_space).items():
        if (d[key].dtype, d[key].shape[1:]) != (dtype, shape):
            raise BadData(key, f"must be {dtype} of the shape {[count, *shape]}, got {d[key].dtype}{d[key].shape}")
        if dtype.kind == "f" and not math.isfinite(np.sum(d[key], dtype=np.float64)):  # quicker than to ask each
            _refuse(key, ~np.isfinite(d[key]), "is not finite, as float32", last)
    for key, space in (("obs", dataset.observation_space), ("next_obs", dataset.observation_space)):
        if isinstance(space, spaces.Discrete):
            _refuse(key, (d[key] < space.start) | (d[key] >= space.start + space.n), f"is not in {space}", last)
    _refuse("action", _outside(dataset.action_space, d["action"]), f"is not in {dataset.action_space}", last)
    _refuse("terminated", d["terminated"] & ~last, "terminates, and its episode goes on", last)
    if not last[-1]:
        raise BadData("last", "the data end before their last episode does", index=count - 1, last=last)
    jumps = _any(d["next_obs"][:-1] != d["obs"][1:]) & ~last[:-1]
    _refuse("next_obs", jumps, "is not the observation of the next step, and the episode goes on", last)


def _same_length(columns: Mapping[str, np.ndarray], last: np.ndarray) -> int:
    lengths = {key: len(x) for key, x in columns.items()}
    shortest, longest = min(lengths, key=lengths.__getitem__), max(lengths.values())
    if lengths[shortest] != longest:
        count = lengths[shortest]
        complaint = f"ends here, with {count} entries where others have {longest}"
        raise BadData(shortest, complaint, index=count, last=last)
    if not 0 < longest <= MOST:
        raise BadData("obs", "there are no transitions" if longest == 0 else f"more than {MOST} transitions")
    return longest


def _outside(space: spaces.Space, action: np.ndarray) -> np.ndarray:
    if isinstance(space, spaces.Discrete):
        return (action < space.start) | (action >= space.start + space.n)
    assert isinstance(space, spaces.Box)
    slack = (SLACK * (space.high - space.low)).astype(np.float32)
    low, high = np.float32(space.low) - slack, np.float32(space.high) + slack
    if (action.min(0) >= low).all() and (action.max(0) <= high).all():
        return np.zeros(len(action), bool)
    return (action < low) | (action > high)


def _any(x: np.ndarray) -> np.ndarray:
    """True for each transition with any true entry.   [N, ...] -> [N]"""
    return x if x.ndim == 1 else np.any(x, axis=1)


def _refuse(key: str, bad: np.ndarray, complaint: str, last: np.ndarray) -> None:
    bad = _any(bad)
    if bad.any():
        raise BadData(key, complaint, index=int(bad.argmax()), last=last)
