import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from gymnasium.wrappers import RescaleAction, TimeLimit, TransformAction, TransformObservation, TransformReward

from sbeed.envs.base import EnvironmentFault, HostEnv
from sbeed.envs.classic import Pendulum
from sbeed.envs.gym import GymEnv
from sbeed.envs.registry import make
from sbeed.types import EnvSpec


@pytest.mark.parametrize(
    ("name", "observation_size", "kind", "action_size", "time_limit"),
    [
        ("HalfCheetah-v5", 17, "box", 6, 1000),
        ("Hopper-v5", 11, "box", 3, 1000),
        ("Pendulum-v1", 3, "box", 1, 200),
        ("CartPole-v1", 4, "discrete", 2, 500),
        ("Acrobot-v1", 6, "discrete", 3, 500),
        ("FrozenLake-v1", 16, "discrete", 4, 100),
    ],
)
def test_real_environments_play_the_same_episode_as_gymnasium(name, observation_size, kind, action_size, time_limit):
    env, theirs, rng = GymEnv(name), gymnasium.make(name), np.random.default_rng(0)
    assert isinstance(env, HostEnv)
    assert env.spec == EnvSpec(name, observation_size, kind, action_size, time_limit)
    obs, (expected, _) = env.reset(seed=7), theirs.reset(seed=7)
    for _ in range(50):
        if name == "FrozenLake-v1":
            expected = np.eye(16)[expected]
        assert obs.dtype == np.float32
        np.testing.assert_array_equal(obs, np.asarray(expected, np.float32))
        action = rng.uniform(-1, 1, action_size).astype(np.float32) if kind == "box" else int(rng.integers(action_size))
        obs, reward, terminated, truncated = env.step(action)
        # Pendulum's torque is bounded by 2, every other box here by 1.
        theirs_action = 2 * action if name == "Pendulum-v1" else action
        expected, expected_reward, *ends, _ = theirs.step(theirs_action)
        assert (reward, [terminated, truncated]) == (float(expected_reward), ends)
        assert [type(x) for x in (reward, terminated, truncated)] == [float, bool, bool]
        if terminated:
            break
    env.close()


def test_box_actions_are_clipped_to_minus_one_and_one_and_mapped_to_the_bounds():
    sent = []
    # Bounds that are not symmetric: -1 -> -1, 0 -> 1, 1 -> 3.
    space = spaces.Box(-1, 3, (1,), np.float32)
    env = GymEnv(TransformAction(PendulumEnv(), lambda a: sent.append(a.copy()) or a - 1, space))
    env.reset(seed=0)
    for action in (-1.0, 0.0, 0.5, 1.0, 7.0, -7.0):
        env.step(np.array([action]))
    np.testing.assert_array_equal(np.concatenate(sent), [-1, 1, 2, 3, 3, -1])


def test_mapped_actions_stay_inside_bounds_that_float32_rounds():
    # 0.1 and 0.7 have no exact float32: the middle plus half the range need not be the upper bound.
    low, high = np.linspace(-0.7, 0.1, 50, dtype=np.float32), np.linspace(0.3, 0.9, 50, dtype=np.float32)
    sent = []
    space = spaces.Box(low, high, dtype=np.float32)
    env = GymEnv(TransformAction(PendulumEnv(), lambda a: sent.append(a.copy()) or a[:1], space))
    env.reset(seed=0)
    for action in np.random.default_rng(0).choice([-1.0, 1.0], (20, 50)):
        env.step(action)
    assert all(space.contains(action) for action in sent)


def test_actions_of_jax_are_accepted_and_of_another_shape_refused():
    env = GymEnv("HalfCheetah-v5")
    env.reset(seed=0)
    env.step(jnp.zeros(6))
    for wrong in (np.zeros(1), np.zeros((1, 6)), 0):
        with pytest.raises(ValueError, match=r"HalfCheetah-v5: action has shape .*, expected \(6,\)"):
            env.step(wrong)


def test_discrete_actions_count_from_zero_whatever_their_start():
    class FromFive(CartPoleEnv):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Discrete(2, start=5)

        def step(self, action):
            self.sent = action
            self.action_space = spaces.Discrete(2)
            return super().step(action - 5)

    inner = FromFive()
    env = GymEnv(inner)
    env.reset(seed=0)
    env.step(1)
    assert inner.sent == 6
    for wrong in (2, -1):
        with pytest.raises(ValueError, match=rf"FromFive: action {wrong} is not one of 0\.\.1"):
            env.step(wrong)


def test_discrete_observations_are_one_hot_whatever_their_start():
    env = GymEnv(TransformObservation(CartPoleEnv(), lambda _: 7, spaces.Discrete(3, start=5)))
    np.testing.assert_array_equal(env.reset(seed=0), [0, 0, 1])


def test_an_observation_is_a_copy():
    buffer = np.zeros(4, np.float32)
    env = GymEnv(TransformObservation(CartPoleEnv(), lambda _: buffer, CartPoleEnv().observation_space))
    obs = env.reset(seed=0)
    buffer[:] = 1
    assert (obs == 0).all()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
        spaces.Box(-1, 1, (2, 2)),
        spaces.Dict({"position": spaces.Box(-1, 1, (2,))}),
        spaces.Tuple([spaces.Discrete(2)]),
        spaces.MultiDiscrete([2, 3]),
    ],
)
def test_other_observation_spaces_are_refused_by_name(space):
    with pytest.raises(
        ValueError, match=r"CartPoleEnv: observation space .* allowed are Discrete and a Box of rank 1"
    ) as e:
        GymEnv(TransformObservation(CartPoleEnv(), lambda obs: obs, space))
    assert str(space) in str(e.value)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "has infinite bounds"),
        (spaces.Box(np.array([-1, -1], np.float32), np.array([1, np.inf], np.float32)), "has infinite bounds"),
        (spaces.Box(0, 3, (2,), np.int64), "allowed are Discrete and a Box of floats of rank 1"),
        (spaces.MultiDiscrete([2, 3]), "allowed are Discrete and a Box of floats of rank 1"),
    ],
)
def test_other_action_spaces_are_refused_by_name(space, message):
    with pytest.raises(ValueError, match=f"PendulumEnv: action space .*{message}") as e:
        GymEnv(TransformAction(PendulumEnv(), lambda a: a, space))
    assert str(space) in str(e.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("HalfCheeta-v5", "did you mean HalfCheetah-v5"),
        ("halfcheetah-v5", "did you mean HalfCheetah-v5"),
        ("Nonsense/of-a-name", "no known id comes close"),
    ],
)
def test_an_unknown_id_is_named_with_those_that_come_close(name, hint):
    with pytest.raises(ValueError, match=f"'{name}' is not a Gymnasium environment id: {hint}"):
        GymEnv(name)


def test_a_path_is_no_module():
    with pytest.raises(ValueError, match=r"'\.\./x' is not the name of a module"):
        GymEnv("../x:y")


def test_time_limit_truncates_and_a_fall_terminates():
    env = GymEnv("Pendulum-v1")
    env.reset(seed=0)
    assert [env.step(np.zeros(1))[2:] for _ in range(200)] == [(False, False)] * 199 + [(False, True)]
    env = GymEnv("CartPole-v1")
    env.reset(seed=0)
    while not any(ends := env.step(1)[2:]):
        pass
    assert ends == (True, False)


def test_termination_wins_over_truncation():
    env, seed = CartPoleEnv(), 0
    fall = 1
    bare = GymEnv(env)
    bare.reset(seed=seed)
    while not bare.step(1)[2]:
        fall += 1
    both = TimeLimit(CartPoleEnv(), fall)
    both.reset(seed=seed)
    assert [both.step(1) for _ in range(fall)][-1][2:4] == (True, True)
    ours = GymEnv(TimeLimit(CartPoleEnv(), fall))
    ours.reset(seed=seed)
    assert [ours.step(1) for _ in range(fall)][-1][2:] == (True, False)


def test_a_reward_that_is_too_large_for_the_replay_is_a_fault():
    env = GymEnv(TransformReward(gymnasium.make("Pendulum-v1"), lambda _: -1e39))
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="Pendulum-v1: reward is not finite at step 1 of episode 1"):
        env.step(np.zeros(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_a_fault_with_its_place(bad):
    rewards = iter([1.0, bad])
    env = GymEnv(TransformReward(gymnasium.make("Pendulum-v1"), lambda _: next(rewards)))
    env.reset(seed=0)
    env.reset(seed=1)
    env.step(np.zeros(1))
    with pytest.raises(EnvironmentFault, match="Pendulum-v1: reward is not finite at step 2 of episode 2"):
        env.step(np.zeros(1))

    env = GymEnv("Pendulum-v1")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="Pendulum-v1: action is not finite at step 1 of episode 1"):
        env.step(np.array([bad]))

    observations = iter([np.zeros(3), np.array([0, bad, -bad]), np.array([bad, 0, 0])])
    space = spaces.Box(-np.inf, np.inf, (3,))
    env = GymEnv(TransformObservation(gymnasium.make("Pendulum-v1"), lambda _: next(observations), space))
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="Pendulum-v1: observation is not finite at step 1 of episode 1"):
        env.step(np.zeros(1))
    with pytest.raises(EnvironmentFault, match="Pendulum-v1: observation is not finite at step 0 of episode 2"):
        env.reset(seed=0)


def test_large_numbers_are_no_fault():
    space = spaces.Box(-np.inf, np.inf, (3,))
    env = GymEnv(TransformObservation(PendulumEnv(), lambda _: np.full(3, 3e38), space))
    env.reset(seed=0)
    obs, *_ = env.step(np.zeros(1))
    np.testing.assert_allclose(obs, 3e38)


def test_make_passes_environments_through_and_wraps_gymnasium_s():
    ours, host = Pendulum(), GymEnv("Pendulum-v1")
    assert make(ours) is ours
    assert make(host) is host
    wrapped = make(RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1)))
    assert isinstance(wrapped, GymEnv)
    assert make("Pendulum-v1").spec == wrapped.spec == host.spec


def test_make_gives_noise_to_gymnasium_s_environments_only():
    plain, noisy = make("Pendulum-v1"), make("Pendulum-v1", noise=0.5)
    assert (plain.reset(seed=0) == noisy.reset(seed=0)).all()
    assert (plain.step(np.zeros(1))[0] != noisy.step(np.zeros(1))[0]).any()
    assert noisy.spec == plain.spec
    for env in ("jax:pendulum", Pendulum(), plain):
        with pytest.raises(ValueError, match="only a Gymnasium environment can be given noise"):
            make(env, noise=0.5)
