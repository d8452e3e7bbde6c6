"""Environments by name."""

from collections.abc import Callable
from functools import partial

import gymnasium

from sbeed.envs import classic, probe
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.gym import GymEnv, make_gym
from sbeed.envs.lqr import LQR
from sbeed.envs.noise import StochasticTransition

# The key is the name that the environment's own spec gives.
JAX_ENVS: dict[str, Callable[[], JaxEnv]] = {
    "jax:pendulum": classic.Pendulum,
    "jax:cartpole": classic.CartPole,
    "jax:lqr": LQR,
    **{f"jax:{kind.name}": kind for kind in probe.PROBES},
    **{f"jax:{kind.name}-box": partial(kind, box=True) for kind in probe.PROBES},
}


def make(env: str | JaxEnv | HostEnv | gymnasium.Env, noise: float = 0.0) -> JaxEnv | HostEnv:
    """The environment of that name: one of `JAX_ENVS`, otherwise a Gymnasium id. One that exists passes through.

    noise: the scale of `StochasticTransition`, for Gymnasium's environments only.
    """
    if isinstance(env, str) and not env.startswith("jax:"):
        env = make_gym(env)
    if isinstance(env, gymnasium.Env):  # tested before HostEnv: it has the same method names
        return GymEnv(StochasticTransition(env, noise) if noise else env)
    if noise:
        raise ValueError(f"noise: only a Gymnasium environment can be given noise, got {env}")
    if not isinstance(env, str):
        return env
    if env not in JAX_ENVS:
        raise ValueError(f"{env!r} is not a JAX environment: the names are {', '.join(JAX_ENVS)}")
    return JAX_ENVS[env]()
