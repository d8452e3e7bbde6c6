"""Collecting on the host: the episode's true last observation, seeds that decide everything, any number of workers."""

from functools import partial

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from sbeed.collect.actor import Actor, Exploring, Following
from sbeed.collect.vector_actor import VectorActor
from sbeed.collect.workers import collector
from sbeed.envs.base import EnvironmentFault
from sbeed.envs.gym import GymEnv
from sbeed.models.nets import MLP
from sbeed.models.policies import Categorical, TanhGaussian
from tests.training.counting import Clockwork, paths

PENDULUM = partial(GymEnv, "Pendulum-v1")


def _policy(seed=0, observations=3):
    return TanhGaussian(MLP((observations, 8, 2), key=jax.random.key(seed))).on_host()


def _actor(seed, make=PENDULUM):
    return Actor(make, make, seed)


class Broken(Clockwork):
    def step(self, action):
        obs, _, *rest = super().step(action)
        return obs, np.nan, *rest


def test_a_time_limit_ends_the_path_but_not_the_value():
    chunk, returns = _actor(0).collect(_policy(), 250)
    np.testing.assert_array_equal(np.flatnonzero(chunk.last), [199])
    assert not chunk.terminated.any()
    # Within an episode each observation is the one reached before; after the end it is that of a reset.
    same = (chunk.next_obs[:-1] == chunk.obs[1:]).all(-1)
    np.testing.assert_array_equal(np.flatnonzero(~same), [199])
    np.testing.assert_allclose(returns, [chunk.reward[:200].sum()], rtol=1e-6)


def test_ends_and_observations_of_every_episode():
    make = lambda: GymEnv(Clockwork())
    chunk, returns = Actor(make, make, 0).collect(_policy(observations=2), 16)
    (first, first_ends), (second, second_ends), _, (fourth, _) = paths(chunk)
    np.testing.assert_array_equal(first, [[1, 0], [1, 1], [1, 2], [1, 3]])
    np.testing.assert_array_equal(second, [[2, t] for t in range(6)])
    np.testing.assert_array_equal(fourth[-1], [4, 5])
    assert (first_ends, second_ends) == (True, False)
    assert returns == [6, 15, 6, 15]  # 1 + 2 + 3 and 1 + ... + 5


def test_types_are_those_of_the_replay():
    chunk, _ = _actor(0).collect(_policy(), 3)
    assert [x.dtype for x in chunk] == [np.float32] * 4 + [bool] * 2
    die = Categorical(MLP((4, 2), key=jax.random.key(0))).on_host()
    chunk, _ = _actor(0, partial(GymEnv, "CartPole-v1")).collect(die, 3)
    assert (chunk.action.dtype, chunk.action.shape) == (np.int32, (3,))


def test_chunks_go_on_where_the_last_one_stopped():
    whole, _ = _actor(3).collect(_policy(), 60)
    actor = _actor(3)
    parts = [actor.collect(_policy(), n)[0] for n in (20, 1, 39)]
    for one, many in zip(whole, zip(*parts)):
        np.testing.assert_array_equal(one, np.concatenate(many))


def test_evaluation_is_deterministic_and_disturbs_nothing():
    actor, undisturbed = _actor(0), _actor(0)
    actor.collect(_policy(), 10)
    undisturbed.collect(_policy(), 10)
    returns, lengths = actor.evaluate(_policy(), 2)
    assert (returns, lengths) == actor.evaluate(_policy(), 2)
    assert returns[0] != returns[1]
    assert lengths == [200, 200]
    for one, two in zip(actor.collect(_policy(), 30)[0], undisturbed.collect(_policy(), 30)[0]):
        np.testing.assert_array_equal(one, two)


def test_exploring_is_uniform_over_what_the_environment_takes():
    sent = np.tanh(_actor(0).collect(Exploring(_policy()), 200)[0].action)
    assert abs(sent.mean()) < 0.2
    assert 0.45 < sent.std() < 0.7  # a uniform on [-1, 1] has 1 / sqrt 3


def test_a_rule_of_the_user_s_is_told_in_raw_actions():
    policy = _policy()
    chunk, _ = _actor(0).collect(Following(policy, lambda obs: [-0.5 * obs[1]]), 30)
    np.testing.assert_allclose(policy.squash(chunk.action), -0.5 * chunk.obs[:, 1:2], atol=1e-6)
    full, _ = _actor(0).collect(Following(policy, lambda obs: [1.0]), 3)
    assert np.isfinite(full.action).all()
    np.testing.assert_allclose(policy.squash(full.action), 1, atol=2e-6)


def _collect(actors, policies):
    actors.begin(policies, 1)
    return actors.answers()


def test_the_number_of_workers_changes_nothing_and_their_faults_arrive():
    makers = [partial(_actor, seed) for seed in (5, 6)]
    answers = []
    for workers in (0, 2):
        actors = collector(makers, workers)
        actors.begin([_policy(0), _policy(1)], 210)
        answers.append((actors.answers(), actors.evaluate([_policy()] * 2, 1)))
        if workers:
            with pytest.raises(ValueError, match="mismatch"):
                _collect(actors, [_policy(observations=2)] * 2)
            assert len(actors.evaluate([_policy()] * 2, 1)) == 2  # and the workers go on
        actors.close()
        actors.close()
    jax.tree.map(np.testing.assert_array_equal, *answers)
    (chunk, returns), _ = answers[0][0]
    assert chunk.reward.shape == (210,)
    assert len(returns) == 1


def test_a_worker_that_dies_is_missed():
    actors = collector([partial(_actor, 0)], 1)
    actors.workers[0].process.kill()
    with pytest.raises(RuntimeError, match="a worker process died"):
        _collect(actors, [_policy()])
    actors.close()


def test_a_worker_in_the_middle_of_something_is_not_waited_for():
    actors = collector([partial(_actor, 0)], 1)
    actors.begin([_policy()], 10**9)
    actors.close()
    assert actors.workers[0].process.exitcode is not None


# ------------------------------------------------------------------------------------------------- vector environments


def _vector_actor(mode, kind=Clockwork):
    envs = SyncVectorEnv([lambda i=i: kind(100 * i) for i in range(3)], autoreset_mode=mode)
    return VectorActor(envs, lambda: GymEnv(Clockwork()), seed=0)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_no_transition_of_a_vector_environment_crosses_a_reset(mode):
    actor, policy = _vector_actor(mode), _policy(observations=2)
    finished = []
    for _ in range(6):
        chunk, returns = actor.collect(policy, 16)
        finished += returns
        assert chunk.reward.shape == (16,)
        assert chunk.last[-1]
        for observations, terminated in paths(chunk):
            np.testing.assert_array_equal(np.diff(observations, axis=0), [[0, 1]] * (len(observations) - 1))
            episode, t = observations[-1]
            assert terminated == (episode % 2 == 1 and t == 3)
        np.testing.assert_array_equal(chunk.reward, chunk.next_obs[:, 1])
        owners = chunk.obs[:, 0] // 100
        np.testing.assert_array_equal(owners, np.sort(owners))  # one environment's steps stand together
    assert set(finished) == {6, 15}
    # Nothing is lost between chunks: every environment's steps run on.
    more, _ = actor.collect(policy, 16)
    steps_of_first = np.vstack([more.obs[more.obs[:, 0] < 100]])
    assert len(steps_of_first) >= 5


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_step_of_every_environment_is_handed_out_once(mode):
    actor, policy = _vector_actor(mode), _policy(observations=2)
    chunks = [actor.collect(policy, n)[0] for n in (5, 16, 2, 31)]
    for first in (0, 100, 200):
        visited = np.concatenate([c.obs[c.obs[:, 0] // 100 * 100 == first] for c in chunks])
        episodes = [[first + e, t] for e in range(1, 9) for t in range(3 if e % 2 else 5)]
        np.testing.assert_array_equal(visited, episodes[: len(visited)])
        assert len(visited) >= 54 / 3 - 3


def test_vector_actions_reach_their_bounds_and_explore_and_follow():
    sent = []

    class Recording(Clockwork):
        def __init__(self, first):
            super().__init__(first)
            self.action_space = gymnasium.spaces.Box(-3, 1, (1,), np.float32)

        def step(self, action):
            sent.append(float(action[0]))
            return super().step(action)

    actor = _vector_actor(AutoresetMode.SAME_STEP, Recording)
    policy = _policy(observations=2)
    chunk, _ = actor.collect(Following(policy, lambda obs: np.array([0.5])), 3)
    np.testing.assert_allclose(sent, 0, atol=1e-6)  # the middle is -1, half the range 2
    np.testing.assert_allclose(policy.squash(chunk.action), 0.5, atol=1e-6)
    chunk, _ = actor.collect(Exploring(policy), 30)
    assert len(np.unique(chunk.action)) == 30


def test_a_reward_that_is_not_finite_is_a_fault():
    make = lambda: GymEnv(Broken())
    with pytest.raises(EnvironmentFault, match="reward is not finite at step 1"):
        Actor(make, make, 0).collect(_policy(observations=2), 1)
    with pytest.raises(EnvironmentFault, match="reward is not finite"):
        _vector_actor(AutoresetMode.SAME_STEP, Broken).collect(_policy(observations=2), 1)
