"""Convert observations and actions between Gymnasium spaces and the agent's vectors.

Everything here takes one observation or action, or a batch with one leading axis. `envs.gym` does the same for one
environment at a time, in the inner loop.
"""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from sbeed.types import EnvSpec


def of_spec(spec: EnvSpec) -> tuple[spaces.Space, spaces.Space]:
    """The observation and action spaces of an environment that has none of its own."""
    observations = spaces.Box(-np.inf, np.inf, (spec.observation_size,), np.float32)
    if spec.action_kind == "discrete":
        return observations, spaces.Discrete(spec.action_size)
    return observations, spaces.Box(-1, 1, (spec.action_size,), np.float32)


def of_env(env: Any, spec: EnvSpec) -> tuple[spaces.Space, spaces.Space]:
    """An environment's spaces, those of one of its copies if it is a vector of them."""
    if isinstance(env, gymnasium.vector.VectorEnv):
        return env.single_observation_space, env.single_action_space
    if isinstance(env, gymnasium.Env):
        return env.observation_space, env.action_space
    return of_spec(spec)


def encode(space: spaces.Space, observation: Any) -> np.ndarray:
    """The vector, or batch of vectors, that the agent sees: float32, one-hot if the space is Discrete."""
    if isinstance(space, spaces.Discrete):
        numbers = np.asarray(observation) - space.start
        if (
            not np.issubdtype(numbers.dtype, np.integer)
            or numbers.ndim > 1
            or not ((numbers >= 0) & (numbers < space.n)).all()
        ):
            raise ValueError(f"observation: expected integers of {space}, one or a vector of them, got {observation!r}")
        return (numbers[..., None] == np.arange(space.n)).astype(np.float32)
    shape = space.shape
    assert shape is not None
    try:
        vectors = np.asarray(observation, np.float32)
    except (TypeError, ValueError):  # such as (obs, info), which `reset` returns
        raise ValueError(f"observation: expected an array of the shape {shape}, got {type(observation)}") from None
    if vectors.shape[vectors.ndim - len(shape) :] != shape or vectors.ndim > len(shape) + 1:
        raise ValueError(f"observation: expected the shape {shape}, or a batch of it, got {vectors.shape}")
    return vectors.reshape(*vectors.shape[: vectors.ndim - len(shape)], math.prod(shape))


def decode(space: spaces.Space, action: Any) -> Any:
    """Convert an action in [-1, 1], or counted from 0, to the environment's bounds, start and dtype."""
    if isinstance(space, spaces.Discrete):
        return (np.asarray(action, np.int64) + space.start)[()]  # a number, not an array, if it is one
    assert isinstance(space, spaces.Box)
    # Halved before they are added: the sum of two large bounds may overflow.
    half_range, centre = space.high / 2 - space.low / 2, space.high / 2 + space.low / 2
    return np.clip(np.asarray(action) * half_range + centre, space.low, space.high).astype(space.dtype)


def unit_action(space: spaces.Space, action: np.ndarray) -> np.ndarray:
    """Invert `decode`: convert the environment's actions to [-1, 1], or to a count from 0."""
    if isinstance(space, spaces.Discrete):
        return (action - space.start).astype(np.int32)
    assert isinstance(space, spaces.Box)
    half_range, centre = space.high / 2 - space.low / 2, space.high / 2 + space.low / 2
    unit = (action - centre) / np.where(half_range > 0, half_range, 1)
    return np.clip(unit, -1, 1).astype(np.float32)


def to_json(space: spaces.Space) -> dict[str, Any]:
    """Describe the space as plain data for `from_json`; an infinite bound is null."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    assert isinstance(space, spaces.Box)
    low, high = ([float(x) if math.isfinite(x) else None for x in side.ravel()] for side in (space.low, space.high))
    return {"kind": "box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype)}


def from_json(data: Mapping[str, Any]) -> spaces.Space:
    if data["kind"] == "discrete":
        return spaces.Discrete(int(data["n"]), start=int(data["start"]))
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    low = np.array([-np.inf if x is None else x for x in data["low"]], np.float64).reshape(shape)
    high = np.array([np.inf if x is None else x for x in data["high"]], np.float64).reshape(shape)
    return spaces.Box(low.astype(dtype), high.astype(dtype), dtype=dtype.type)
