"""Wrappers with running statistics are refused, with the agent's own settings named."""

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from sbeed import SBEED
from tests.tiny import TINY

KINDS = {
    wrappers.NormalizeObservation: "normalize_observations=True",
    wrappers.NormalizeReward: "normalize_rewards=True",
    wrappers.vector.NormalizeObservation: "normalize_observations=True",
    wrappers.vector.NormalizeReward: "normalize_rewards=True",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__.split('.')[2]}-{kind.__name__}")
def test_a_wrapper_with_running_statistics_is_refused(kind):
    single = issubclass(kind, gymnasium.Wrapper)
    env = gymnasium.make("Pendulum-v1") if single else gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync")
    with pytest.raises(ValueError, match=f"^Pendulum-v1: {kind.__name__} keeps statistics .*{KINDS[kind]}"):
        SBEED("MlpPolicy", kind(env), **TINY)


def test_inside_other_wrappers_and_inside_vectors():
    env = wrappers.ClipReward(wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1")), -1, 1)
    inside = gymnasium.vector.SyncVectorEnv([lambda: wrappers.NormalizeReward(gymnasium.make("Pendulum-v1"))])
    asked = {"vectorization_mode": "async", "vector_kwargs": {"context": "spawn"}}
    by_name = gymnasium.make_vec("Pendulum-v1", 2, wrappers=[wrappers.NormalizeReward], **asked)
    for wrapped in (env, inside, by_name):
        with pytest.raises(ValueError, match="keeps statistics"):
            SBEED("MlpPolicy", wrapped, **TINY)
    by_name.close()
    with pytest.raises(ValueError, match="keeps statistics"):
        SBEED("MlpPolicy", "Pendulum-v1", eval_env=env, **TINY).evaluate(1)


def _frozen():
    env = wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1"))
    env.update_running_mean = False
    env.obs_rms.mean, env.obs_rms.var = np.ones(3), np.full(3, 4.0)
    return env


def test_frozen_statistics_are_evaluated_in_an_environment_that_shares_them():
    agent = SBEED("MlpPolicy", _frozen(), eval_env=_frozen(), **TINY)
    assert agent.evaluate(1) == agent.evaluate(1)
    with pytest.raises(ValueError, match="give an eval_env with the same statistics"):
        SBEED("MlpPolicy", _frozen(), **TINY).evaluate(1)
