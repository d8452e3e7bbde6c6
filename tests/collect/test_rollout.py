"""Pure environments inside a program: ends as exact as on the host, and paths that chunks do not cut."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.collect import rollout
from sbeed.envs.classic import CartPole
from sbeed.envs.lqr import LQR
from sbeed.envs.probe import Termination, TimeLimit
from sbeed.models.nets import MLP
from sbeed.models.policies import Categorical, TanhGaussian

KEY = jax.random.key(0)


def _policy(env, key=KEY):
    spec = env.spec
    if spec.action_kind == "discrete":
        return Categorical(MLP((spec.observation_size, spec.action_size), key=key))
    return TanhGaussian(MLP((spec.observation_size, 2 * spec.action_size), key=key))


@partial(jax.jit, static_argnames="length")
def _collect(env, life, count, exploring=False, *, length):
    return rollout.collect(env, _policy(env), life, KEY, length=length, count=count, exploring=exploring)


@pytest.mark.parametrize(("env", "terminates"), [(TimeLimit(), False), (Termination(), True)])
def test_ends_are_where_they_are_and_what_was_reached_is_kept(env, terminates):
    _, chunk, returns = _collect(env, rollout.begin(env, KEY), 12, length=12)
    ends = [4, 9]
    np.testing.assert_array_equal(np.flatnonzero(chunk.last), ends)
    np.testing.assert_array_equal(np.flatnonzero(chunk.terminated), ends if terminates else [])
    np.testing.assert_allclose(chunk.obs[:, 0], [0, 0.2, 0.4, 0.6, 0.8] * 2 + [0, 0.2], rtol=1e-6)
    np.testing.assert_allclose(chunk.next_obs[:, 0], [0.2, 0.4, 0.6, 0.8, 1] * 2 + [0.2, 0.4], rtol=1e-6)
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(returns)), ends)
    np.testing.assert_array_equal(returns[jnp.array(ends)], 5)


@pytest.mark.parametrize("env", [LQR(), CartPole()])
def test_a_path_does_not_depend_on_how_it_is_cut(env):
    _, whole, whole_returns = _collect(env, rollout.begin(env, KEY), 120, length=120)
    life, parts = rollout.begin(env, KEY), []
    for count in (50, 7, 50, 13):
        life, chunk, returns = _collect(env, life, count, length=50)
        assert np.isnan(returns[count:]).all()
        parts.append(jax.tree.map(lambda x, n=count: x[:n], (chunk, returns)))
    joined = jax.tree.map(lambda *some: np.concatenate(some), *parts)
    jax.tree.map(np.testing.assert_array_equal, (whole, whole_returns), joined)
    assert life.steps == 120
    assert life.episodes == 1 + whole.last.sum() > 1
    starts = np.flatnonzero(whole.last)[:-1] + 1
    assert len(np.unique(whole.obs[starts, 0])) == len(starts)  # every episode has a beginning of its own


def test_exploring_is_uniform():
    env = LQR()
    _, chunk, _ = _collect(env, rollout.begin(env, KEY), 500, True, length=500)
    sent = np.tanh(chunk.action)
    assert abs(sent.mean()) < 0.1
    assert 0.5 < sent.std() < 0.65  # 1 / sqrt 3 = .577
    assert chunk.obs.dtype == chunk.action.dtype == chunk.reward.dtype == jnp.float32


def test_evaluation_plays_whole_episodes_of_the_deterministic_policy():
    env = CartPole()
    policy = _policy(env)
    returns, lengths, faults = jax.jit(partial(rollout.evaluate, episodes=4))(env, policy, KEY)
    step = jax.jit(env.step)
    for episode in range(4):
        k_reset, _ = jax.random.split(jax.random.fold_in(KEY, episode))
        state, total, over = env.reset(k_reset), 0, False
        while not over:  # CartPole's steps take no key
            after = step(state, policy.mode(env.observe(state)), KEY)
            state, total, over = after.state, total + 1, bool(after.terminated | after.truncated)
        assert returns[episode] == lengths[episode] == total
    assert len(set(lengths.tolist())) > 1
    assert faults.tolist() == [-1] * 4
