"""Collecting on the host: the episode's true last observation, seeds that decide everything, any number of workers."""

import jax
import numpy as np

from sbeed.models.nets import MLP
from sbeed.models.policies import TanhGaussian
from sbeed.training.collect import Actor, Collector
from sbeed.training.population import host_maker

PENDULUM = host_maker("Pendulum-v1")


def _policy(seed=0):
    return jax.tree.map(np.asarray, TanhGaussian(MLP((3, 8, 2), key=jax.random.key(seed))))


def test_a_time_limit_ends_the_path_but_not_the_value():
    actor = Actor(PENDULUM, seed=0)
    chunk = actor.collect(_policy(), 250)
    np.testing.assert_array_equal(np.flatnonzero(chunk.last), [199])
    assert not chunk.terminated.any()
    # Within an episode each observation is the one reached before; after the end it is that of a reset.
    same = (chunk.next_obs[:-1] == chunk.obs[1:]).all(-1)
    np.testing.assert_array_equal(np.flatnonzero(~same), [199])
    assert len(actor.returns) == 1
    np.testing.assert_allclose(actor.returns[0], chunk.reward[:200].sum(), rtol=1e-6)


def test_chunks_go_on_where_the_last_one_stopped():
    whole = Actor(PENDULUM, seed=3).collect(_policy(), 60)
    actor = Actor(PENDULUM, seed=3)
    parts = [actor.collect(_policy(), 20) for _ in range(3)]
    for one, many in zip(whole, zip(*parts)):
        np.testing.assert_array_equal(one, np.concatenate(many))


def test_evaluation_is_deterministic_and_disturbs_nothing():
    actor, undisturbed = Actor(PENDULUM, seed=0), Actor(PENDULUM, seed=0)
    actor.collect(_policy(), 10)
    undisturbed.collect(_policy(), 10)
    first = actor.evaluate(_policy(), 2)
    assert first == actor.evaluate(_policy(), 2)
    assert first[0] != first[1]
    for one, two in zip(actor.collect(_policy(), 30), undisturbed.collect(_policy(), 30)):
        np.testing.assert_array_equal(one, two)


def test_random_actions_before_there_is_a_policy():
    chunk = Actor(PENDULUM, seed=0).collect(None, 200)
    sent = np.tanh(chunk.action)
    assert abs(sent.mean()) < 0.2
    assert 0.45 < sent.std() < 0.7  # a uniform on [-1, 1] has 1 / sqrt 3


def test_the_number_of_workers_changes_nothing():
    policies, chunks = [_policy(0), _policy(1)], []
    for workers in (1, 2):
        collector = Collector(PENDULUM, [5, 6], workers)
        chunks.append(collector.collect(policies, 210))
        collector.close()
    (one, returns_one), (two, returns_two) = chunks
    for x, y in zip(one, two):
        np.testing.assert_array_equal(x, y)
    assert returns_one == returns_two
    assert one.reward.shape == (2, 210)
