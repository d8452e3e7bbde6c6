"""Add noise to the transitions of an environment."""

from typing import Any, Protocol, SupportsFloat, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces


@runtime_checkable
class _Simulated(Protocol):
    """Attributes of Gymnasium's MuJoCo environments; checked by name, so that MuJoCo need not be installed."""

    data: Any

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None: ...

    def _get_obs(self) -> np.ndarray: ...


class StochasticTransition(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Seeded Gaussian noise of standard deviation `scale` on every transition.

    The paper runs a "stochastic" Swimmer without saying what was random; this definition is *ours*.

    MuJoCo: after the step, each joint velocity gets scale * N(0, 1) (m/s or rad/s), and the observation is that of the
    new state. Reward and ends are those of the step before the kick, so r stays a function of (s, a) and only s' is
    random.

    Other environments: the action gets noise before the step, in units of half the range of its bounds, and is clipped
    to them; here the reward is random too.

    The noise has its own stream, started by `reset(seed=...)`: the first state is that of the bare environment, and one
    seed gives the same draws at every scale. Scale 0 is the bare environment, bit for bit. Wrappers that change
    observations go around this one.
    """

    def __init__(self, env: gymnasium.Env, scale: float) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, scale=scale)
        gymnasium.Wrapper.__init__(self, env)
        if not 0 <= scale < np.inf:
            raise ValueError(f"scale: must be finite and not negative, got {scale}")
        self._scale = scale
        self._noise = np.random.default_rng()
        self._simulated = env.unwrapped if isinstance(env.unwrapped, _Simulated) else None
        space = env.action_space
        if self._simulated is not None:
            if env.observation_space != env.unwrapped.observation_space:
                raise ValueError(
                    f"{env}: a wrapper inside changes observations, which are recomputed here; put it outside"
                )
        elif not (isinstance(space, spaces.Box) and space.is_bounded()):
            raise ValueError(f"{env}: action noise needs a Box of actions with finite bounds, got {space}")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            # A second word in the seed: the environment's own generator starts from the first alone.
            self._noise = np.random.default_rng((seed, 1))
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        # Setting the state, even to what it is, changes the solver's warm start and with it the last bits.
        if self._scale == 0:
            return super().step(action)
        if self._simulated is None:
            return super().step(self._noisy(action))
        _, reward, terminated, truncated, info = super().step(action)
        data = self._simulated.data
        self._simulated.set_state(data.qpos, data.qvel + self._draw(data.qvel.shape))
        return self._simulated._get_obs(), reward, terminated, truncated, info

    def _noisy(self, action: np.ndarray) -> np.ndarray:
        space = self.action_space
        assert isinstance(space, spaces.Box)
        noise = self._draw(space.shape) * (space.high / 2 - space.low / 2)
        return np.clip(action + noise, space.low, space.high).astype(space.dtype)

    def _draw(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._scale * self._noise.standard_normal(shape)
