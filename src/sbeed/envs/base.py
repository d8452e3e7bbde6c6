"""Interfaces of environments: a pure one on the device, and one on the host that keeps its own state."""

import abc
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import numpy as np

from sbeed.types import Array, EnvSpec, Key


class EnvironmentFault(RuntimeError):  # noqa: N818  the fault may be the agent's: a NaN action
    """An environment raised an error, or a number that is not finite went in or out; the message says where.

    where: " at step 3 of episode 2".
    """

    def __init__(self, complaint: str, where: str = ""):
        super().__init__(complaint + where)
        self.complaint = complaint


class Step(NamedTuple):
    """The result of one step of a JaxEnv.

    `obs` is the observation of `state`, the one really reached. At most one of `terminated` and `truncated` is set: a
    step that falls over at the time limit has fallen over.
    """

    state: Any
    obs: Array
    reward: Array
    terminated: Array
    truncated: Array


class JaxEnv(eqx.Module):
    """A pure environment: every method may go under `jit`, `vmap` and `scan`. It never resets itself.

    `state` is a pytree that holds all there is, its step count included, so that a time limit is part of the state.
    Floats follow the state's dtype, which `reset` makes float32 even where x64 is on.
    """

    @property
    @abc.abstractmethod
    def spec(self) -> EnvSpec: ...

    @abc.abstractmethod
    def reset(self, key: Key) -> Any:
        """Draw a first state; `observe` gives its observation."""

    @abc.abstractmethod
    def observe(self, state: Any) -> Array:
        """[observation_size]"""

    @abc.abstractmethod
    def step(self, state: Any, action: Array, key: Key) -> Step:
        """action: [action_size] in [-1, 1], clipped here; or one integer where actions are discrete."""


@runtime_checkable
class HostEnv(Protocol):
    """One environment on the host, with a state of its own. It never resets itself.

    Every episode starts from a seed, so that seed and actions are enough to play it again. A `gymnasium.Env` has the
    same four names and *other* signatures: wrap it in `GymEnv`.
    """

    @property
    def spec(self) -> EnvSpec: ...

    def reset(self, seed: int) -> np.ndarray:
        """The first observation, float32: [observation_size]"""

    def step(self, action: np.ndarray | int) -> tuple[np.ndarray, float, bool, bool]:
        """obs (float32), reward, terminated, truncated; at most one of the last two is set."""

    def close(self) -> None: ...
