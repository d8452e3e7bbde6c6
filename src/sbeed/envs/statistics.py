"""Refuse wrappers that keep running statistics: those of the environment for evaluation would be others."""

from collections.abc import Iterator
from typing import Any

import gymnasium

# By their names, which the wrappers of single environments and of vectors, and Stable-Baselines3's, share.
_REMEDIES = {
    "NormalizeObservation": "normalize_observations=True",
    "NormalizeReward": "normalize_rewards=True",
    "VecNormalize": "normalize_observations=True, normalize_rewards=True",
}


def check_statistics(name: str, env: Any) -> None:
    """Raise a ValueError if a wrapper of this environment still changes statistics of its own."""
    for wrapper in _wrappers(env):
        for kind in type(wrapper).__mro__:
            updates = getattr(wrapper, "update_running_mean", getattr(wrapper, "training", True))
            if kind.__name__ in _REMEDIES and updates:
                _refuse(name, kind.__name__)
    registered = getattr(env, "spec", None)
    for wrap in (getattr(registered, "kwargs", None) or {}).get("wrappers") or ():  # of a vector, whatever process
        if getattr(wrap, "__name__", "") in _REMEDIES:
            _refuse(name, wrap.__name__)


def _wrappers(env: Any) -> Iterator[Any]:
    """The environment, all that it wraps, and the environments in it, if it is a vector in this process."""
    while env is not None:
        yield env
        held = getattr(env, "__dict__", {})
        inside = held.get("envs", ())
        for one in inside if isinstance(inside, list | tuple) else [inside]:
            yield from _wrappers(one)
        env = env.env if isinstance(env, gymnasium.Wrapper | gymnasium.vector.VectorWrapper) else held.get("venv")


def _refuse(name: str, wrapper: str) -> None:
    raise ValueError(
        f"{name}: {wrapper} keeps statistics that the environment for evaluation would not share: leave it out and let "
        f"the agent normalise ({_REMEDIES[wrapper]}), or freeze it and give an eval_env with the same statistics"
    )
