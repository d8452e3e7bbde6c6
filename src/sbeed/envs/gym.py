"""Gymnasium's environments, one at a time, on the host."""

import difflib
import math
from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from sbeed.envs.base import EnvironmentFault
from sbeed.types import EnvSpec

_LARGEST = float(np.finfo(np.float32).max)  # rewards are kept as float32, where a larger one is infinite


def make_gym(name: str, *, time_limit: bool = True, render_mode: str | None = None) -> gymnasium.Env:
    """`gymnasium.make`, except that an unknown id is a ValueError with the ids that come close.

    A name such as module:Name-v0 imports the module: one from a file goes through `envs.task.check_imports_nothing`
    first. time_limit: whether episodes are cut where the registration says.
    """
    module, colon, _ = name.rpartition(":")
    if colon and not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"{name!r} is not a Gymnasium environment id: {module!r} is not the name of a module")
    try:
        # The checker wraps every step to look at the first two; GymEnv looks at all of them.
        limit = None if time_limit else -1
        drawn = {} if render_mode is None else {"render_mode": render_mode}  # which not every environment takes
        return gymnasium.make(name, disable_env_checker=True, max_episode_steps=limit, **drawn)
    except gymnasium.error.DependencyNotInstalled:
        raise
    except gymnasium.error.Error as error:
        by_lower_case = {known.lower(): known for known in gymnasium.registry}
        close = difflib.get_close_matches(name.lower(), by_lower_case, n=3)
        hint = f"did you mean {', '.join(by_lower_case[key] for key in close)}?" if close else "no known id comes close"
        raise ValueError(f"{name!r} is not a Gymnasium environment id: {hint} ({error})") from error


class GymEnv:
    """A HostEnv around one `gymnasium.Env`, given by its id or as an instance.

    A Box action in [-1, 1] is clipped and mapped to the bounds of the environment's own space; a discrete action counts
    from 0 whatever the space's `start`. `terminated` wins where Gymnasium sets both flags. Steps and episodes count
    from 1 in a fault's message; step 0 is the reset.
    """

    def __init__(self, env: str | gymnasium.Env) -> None:
        self._env = make_gym(env) if isinstance(env, str) else env
        registered = self._env.spec
        name = registered.id if registered is not None else type(self._env.unwrapped).__name__
        self._read_observation_space(name, self._env.observation_space)
        self._spec = EnvSpec(
            name=name,
            observation_size=self._observation_size,
            action_kind=self._read_action_space(name, self._env.action_space),
            action_size=self._action_size,
            time_limit=registered.max_episode_steps if registered is not None else None,
        )
        self._env_step = self._env.step  # looked up once: `step` is the inner loop
        self._episode = self._steps = 0

    @property
    def spec(self) -> EnvSpec:
        return self._spec

    def reset(self, seed: int) -> np.ndarray:
        self._episode += 1
        self._steps = 0
        raw, _ = self._env.reset(seed=seed)
        obs = self._observe(raw)
        if not math.isfinite(sum(obs.tolist())):
            raise self._fault("observation")
        return obs

    def step(self, action: np.ndarray | int) -> tuple[np.ndarray, float, bool, bool]:
        self._steps += 1
        raw, reward, terminated, truncated, _ = self._env_step(self._act(action))
        obs = self._observe(raw)
        reward = float(reward)
        # A Python sum of a short list is quicker than np.isfinite().all(), and a sum of float32 cannot overflow in it.
        if not (math.isfinite(sum(obs.tolist(), reward)) and -_LARGEST <= reward <= _LARGEST):
            raise self._fault("observation" if -_LARGEST <= reward <= _LARGEST else "reward")
        terminated = bool(terminated)
        return obs, reward, terminated, bool(truncated) and not terminated

    def close(self) -> None:
        self._env.close()

    def _fault(self, field: str) -> EnvironmentFault:
        where = f" at step {self._steps} of episode {self._episode}"
        return EnvironmentFault(f"{self._spec.name}: {field} is not finite", where)

    def _read_observation_space(self, name: str, space: spaces.Space) -> None:
        self._observe = self._vector
        if isinstance(space, spaces.Discrete):
            self._observe = self._one_hot
            self._observation_size, self._observation_start = int(space.n), int(space.start)
        elif isinstance(space, spaces.Box) and len(space.shape) <= 1:
            self._observation_size = math.prod(space.shape)
        else:
            raise ValueError(
                f"{name}: observation space {space} is not supported; allowed are Discrete and a Box of rank 1 "
                "(gymnasium.wrappers.FlattenObservation makes a vector of most others)"
            )

    def _read_action_space(self, name: str, space: spaces.Space) -> Literal["box", "discrete"]:
        if isinstance(space, spaces.Discrete):
            self._act: Callable[[np.ndarray | int], np.ndarray | int] = self._discrete_action
            self._action_size, self._action_start = int(space.n), int(space.start)
            return "discrete"
        if not (isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating)):
            raise ValueError(
                f"{name}: action space {space} is not supported; allowed are Discrete and a Box of floats of rank 1"
            )
        if not space.is_bounded():
            raise ValueError(
                f"{name}: action space {space} has infinite bounds, so [-1, 1] cannot be mapped to it; allowed is a "
                "Box with finite bounds (gymnasium.wrappers.RescaleAction or TransformAction can give it some)"
            )
        self._act = self._box_action
        self._action_size, self._action_shape, self._action_dtype = space.shape[0], space.shape, space.dtype
        self._low, self._high = space.low, space.high
        self._unit_bounds = bool((space.low == -1).all() and (space.high == 1).all())
        # Halved before they are added: the sum of two large float32 bounds may overflow.
        self._half_range, self._centre = space.high / 2 - space.low / 2, space.high / 2 + space.low / 2
        return "box"

    def _vector(self, raw: Any) -> np.ndarray:
        # Always a copy: an environment may write its next observation into the same array.
        return np.array(raw, np.float32, ndmin=1)

    def _one_hot(self, raw: Any) -> np.ndarray:
        obs = np.zeros(self._observation_size, np.float32)
        obs[int(raw) - self._observation_start] = 1
        return obs

    def _box_action(self, action: np.ndarray | int) -> np.ndarray:
        action = np.asarray(action, self._action_dtype)
        if action.shape != self._action_shape:  # a shorter one would be broadcast silently
            raise ValueError(f"{self._spec.name}: action has shape {action.shape}, expected {self._action_shape}")
        # MuJoCo takes NaN for 0 without an error.
        if not math.isfinite(sum(action.tolist())):
            raise self._fault("action")
        if not self._unit_bounds:
            action = action * self._half_range + self._centre
        # Clipped last: rounding in the affine map may leave the bounds by an ulp. np.clip takes twice as long.
        return np.minimum(np.maximum(action, self._low), self._high)

    def _discrete_action(self, action: np.ndarray | int) -> int:
        action = int(action)
        if not 0 <= action < self._action_size:  # a list indexed with -1 would answer
            raise ValueError(f"{self._spec.name}: action {action} is not one of 0..{self._action_size - 1}")
        return action + self._action_start


class _OneOf(gymnasium.Env):
    """The spaces of one environment of a VectorEnv, for an adapter to read."""

    def __init__(self, envs: VectorEnv):
        self.envs, self.spec = envs, envs.spec
        self.observation_space, self.action_space = envs.single_observation_space, envs.single_action_space

    @property
    def unwrapped(self) -> Any:  # its class names an environment without registration
        return self.envs.unwrapped


def vector_spec(envs: VectorEnv) -> EnvSpec:
    """The `EnvSpec` of each of the environments of a vector."""
    return GymEnv(_OneOf(envs)).spec
