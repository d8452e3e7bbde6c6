import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import TransformObservation

from sbeed.envs.noise import StochasticTransition


def path(env, seed, steps=60):
    """Observations, rewards and ends under actions that depend on nothing."""
    actions = np.random.default_rng(5).uniform(
        env.action_space.low, env.action_space.high, (steps, *env.action_space.shape)
    )
    rows = [(env.reset(seed=seed)[0], 0.0, False, False)]
    for action in actions.astype(np.float32):
        rows.append(env.step(action)[:4])
        if rows[-1][2]:
            break
    obs, rewards, *ends = zip(*rows)
    return np.column_stack([np.array(obs, float), rewards, *ends])


@pytest.mark.parametrize("name", ["Swimmer-v5", "HalfCheetah-v5", "Hopper-v5", "Pendulum-v1"])
def test_the_seed_alone_decides_the_path(name):
    env = StochasticTransition(gymnasium.make(name), 0.1)
    first, again, other = path(env, 0), path(env, 0), path(env, 1)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, path(StochasticTransition(gymnasium.make(name), 0.1), 0))
    assert (first[1] != other[1]).any()
    bare = path(gymnasium.make(name), 0)
    np.testing.assert_array_equal(first[0], bare[0])  # the noise leaves the first state alone
    assert (first[1] != bare[1]).any()


@pytest.mark.parametrize("name", ["Swimmer-v5", "Hopper-v5", "Pendulum-v1"])
def test_scale_zero_is_the_bare_environment_bit_for_bit(name):
    np.testing.assert_array_equal(
        path(StochasticTransition(gymnasium.make(name), 0.0), 3), path(gymnasium.make(name), 3)
    )


def test_velocities_get_the_stated_noise_and_positions_and_reward_none():
    bare, noisy = gymnasium.make("Swimmer-v5"), StochasticTransition(gymnasium.make("Swimmer-v5"), 0.2)
    action = np.array([0.5, -0.5], np.float32)
    kicks = []
    for seed in range(300):
        bare.reset(seed=seed)
        noisy.reset(seed=seed)
        quiet_obs, quiet_reward, *_ = bare.step(action)
        obs, reward, *_ = noisy.step(action)
        assert reward == quiet_reward
        np.testing.assert_array_equal(obs[:3], quiet_obs[:3])  # Swimmer shows 3 positions, then 5 velocities
        kicks.append(obs[3:] - quiet_obs[3:])
    # 1500 draws: the sd of their mean is .2 / 39 = .005, of their sd .2 / 55 = .004.
    assert np.mean(kicks) == pytest.approx(0, abs=0.02)
    assert np.std(kicks) == pytest.approx(0.2, abs=0.015)
    # The observation is that of the state from which the next step starts.
    np.testing.assert_array_equal(obs[3:], noisy.unwrapped.data.qvel)


def test_action_noise_is_in_units_of_half_the_range_and_stays_in_bounds():
    env = StochasticTransition(gymnasium.make("Pendulum-v1"), 0.1)
    torques = []
    for seed in range(300):
        env.reset(seed=seed)
        env.step(np.array([0.5], np.float32))
        torques.append(env.unwrapped.last_u)
    # Half the range of the torque is 2.   300 draws: the sd of their mean is .2 / 17 = .012.
    assert np.mean(torques) == pytest.approx(0.5, abs=0.05)
    assert np.std(torques) == pytest.approx(0.2, abs=0.03)
    env.step(np.array([2.0], np.float32))
    assert env.unwrapped.last_u <= 2


@pytest.mark.parametrize("name", ["Swimmer-v5", "Pendulum-v1"])
def test_gymnasium_s_checker_passes(name):
    with warnings.catch_warnings():
        # It warns of every wrapper, of infinite bounds on observations, and of torques beyond 1: none of it is ours.
        for known in ("is different from the unwrapped version", "A Box observation space", "For Box action spaces"):
            warnings.filterwarnings("ignore", message=f"(?s).*{known}")
        check_env(StochasticTransition(gymnasium.make(name), 0.1), skip_render_check=True)


def test_its_spec_makes_it_again():
    env = StochasticTransition(gymnasium.make("Swimmer-v5"), 0.1)
    assert env.spec.max_episode_steps == 1000
    np.testing.assert_array_equal(path(gymnasium.make(env.spec), 0), path(env, 0))


def test_what_cannot_be_given_noise_is_refused():
    for scale in (-0.1, np.nan, np.inf):
        with pytest.raises(ValueError, match="scale: must be finite and not negative"):
            StochasticTransition(gymnasium.make("Pendulum-v1"), scale)
    with pytest.raises(ValueError, match="action noise needs a Box of actions"):
        StochasticTransition(gymnasium.make("CartPole-v1"), 0.1)
    swimmer = gymnasium.make("Swimmer-v5")
    halved = TransformObservation(swimmer, lambda obs: obs[:4], gymnasium.spaces.Box(-np.inf, np.inf, (4,)))
    with pytest.raises(ValueError, match="a wrapper inside changes observations"):
        StochasticTransition(halved, 0.1)
