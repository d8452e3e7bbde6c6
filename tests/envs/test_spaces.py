"""Observations and actions in the environment's own terms, one or a batch."""

import json

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from sbeed.envs import spaces
from sbeed.envs.gym import GymEnv
from sbeed.envs.registry import make


def test_a_box_action_lands_in_the_bounds():
    space = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    # -1 -> low, 1 -> high, 0 -> the centre; beyond that it is clipped.
    batch = spaces.decode(space, np.array([[-1.0, 1.0], [0.0, 0.0], [-7.0, 7.0]], np.float32))
    np.testing.assert_array_equal(batch, [[-2, 10], [0, 5], [-2, 10]])
    assert batch.dtype == np.float32
    assert spaces.decode(space, np.array([0.5, 0.5])) in space


def test_the_mapping_is_that_of_the_training_environment():
    env = gymnasium.make("Pendulum-v1")
    sent = []
    env.unwrapped.step = lambda action: sent.append(action) or (np.zeros(3, np.float32), 0.0, False, False, {})
    host = GymEnv(env)
    host.reset(seed=0)
    for action in np.linspace(-1.2, 1.2, 7, dtype=np.float32):
        host.step(np.array([action]))
        np.testing.assert_array_equal(sent[-1], spaces.decode(env.action_space, np.array([action])))


def test_discrete_numbers_keep_their_start():
    assert spaces.decode(Discrete(3, start=5), 2) == 7
    assert isinstance(spaces.decode(Discrete(3), np.array(2)), np.int64)
    np.testing.assert_array_equal(spaces.decode(Discrete(3, start=5), np.array([0, 2])), [5, 7])


def test_discrete_observations_become_one_hot():
    np.testing.assert_array_equal(spaces.encode(Discrete(3, start=5), 6), [0, 1, 0])
    np.testing.assert_array_equal(spaces.encode(Discrete(3), np.array([2, 0])), [[0, 0, 1], [1, 0, 0]])
    assert spaces.encode(Discrete(10**6), 7).sum() == 1  # at no more than its own size


@pytest.mark.parametrize(("shape", "one"), [((3,), [1, 2, 3]), ((), 4.0)])
def test_box_observations_alone_and_in_a_batch(shape, one):
    space = Box(-np.inf, np.inf, shape)
    size = max(1, len(np.atleast_1d(one)))
    assert spaces.encode(space, one).shape == (size,)
    assert spaces.encode(space, [one, one]).shape == (2, size)
    assert spaces.encode(space, one).dtype == np.float32


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (Box(-1, 1, (3,)), [1, 2]),
        (Box(-1, 1, (3,)), np.zeros((1, 1, 3))),
        (Box(-1, 1, (3,)), 0.0),
        (Discrete(3), 3),
        (Discrete(3), -1),
        (Discrete(3), 1.0),
        (Discrete(3), [[0]]),
    ],
)
def test_a_wrong_observation_is_refused(space, observation):
    with pytest.raises(ValueError, match="observation: expected"):
        spaces.encode(space, observation)


@pytest.mark.parametrize(
    "space",
    [
        Box(-2, 2, (1,)),
        Box(np.array([-1, 0]), np.array([0, np.inf]), dtype=np.float64),
        Box(-1, 1, ()),
        Discrete(4, start=2),
    ],
)
def test_spaces_survive_json(space):
    assert spaces.from_json(json.loads(json.dumps(spaces.to_json(space), allow_nan=False))) == space


def test_spaces_of_every_kind_of_environment():
    env = gymnasium.make("Pendulum-v1")
    spec = GymEnv(env).spec
    assert spaces.of_env(env, spec) == (env.observation_space, env.action_space)
    vector = gymnasium.make_vec("Pendulum-v1", 2)
    assert spaces.of_env(vector, spec) == (env.observation_space, env.action_space)
    cartpole = make("jax:cartpole")
    assert spaces.of_env(cartpole, cartpole.spec) == (Box(-np.inf, np.inf, (4,)), Discrete(2))
    pendulum = make("jax:pendulum")
    assert spaces.of_env(pendulum, pendulum.spec)[1] == Box(-1, 1, (1,))
