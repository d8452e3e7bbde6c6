import numpy as np
import pytest

from sbeed.envs.base import EnvironmentFault, HostEnv
from sbeed.envs.classic import CartPole
from sbeed.envs.hosted import Hosted
from sbeed.envs.lqr import LQR
from sbeed.envs.probe import ConstantReward


def _path(seed, steps=20):
    env = Hosted(LQR())
    assert isinstance(env, HostEnv)
    rows = [env.reset(seed=seed)]
    return np.stack(rows + [env.step(np.array([0.1], np.float32))[0] for _ in range(steps)])


def test_the_seed_alone_decides_a_noisy_path():
    first = _path(3)
    np.testing.assert_array_equal(first, _path(3))
    assert (first != _path(4)).all(axis=-1).any()
    assert first.dtype == np.float32


def test_an_episode_ends_as_gymnasium_s_does_in_plain_types_and_one_program():
    traced = []

    class Traced(CartPole):
        def step(self, state, action, key):
            traced.append(state)
            return super().step(state, action, key)

    env, total, over = Hosted(Traced()), 0, False
    env.reset(seed=0)
    while not over:
        obs, reward, terminated, truncated = env.step(0)
        total, over = total + reward, terminated or truncated
    assert [type(x) for x in (obs, reward, terminated, truncated)] == [np.ndarray, float, bool, bool]
    assert terminated
    assert 5 < total < 15
    assert len(traced) == 1


def test_a_number_that_is_not_finite_is_a_fault():
    class Broken(ConstantReward):
        def reward(self, obs, action):
            return obs[0] * np.nan

    env = Hosted(Broken())
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="jax:constant-reward: reward is not finite at step 1"):
        env.step(0)
