"""Running scales: the same whatever the chunks, and numbers that survive float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.models.normalize import Normalizer, ReturnScale

update = jax.jit(Normalizer.update)
update_returns = jax.jit(ReturnScale.update)


@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_chunks_merge_to_the_moments_of_all_rows(offset):
    x = np.random.default_rng(0).normal(offset, [1, 3], (300, 2)).astype(np.float32)
    normalizer = Normalizer(2)
    for chunk in np.split(x, 3):
        normalizer = update(normalizer, chunk)
    assert normalizer.count == 300
    assert normalizer.mean.dtype == normalizer.var.dtype == normalizer.count.dtype == jnp.float32
    np.testing.assert_allclose(normalizer.mean, x.astype(np.float64).mean(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(normalizer.var, x.astype(np.float64).var(0), rtol=1e-4)


def test_what_comes_out_has_mean_zero_and_variance_one():
    x = np.random.default_rng(0).normal([5, -2], [1, 3], (100, 2)).astype(np.float32)
    y = update(Normalizer(2), x)(x)
    np.testing.assert_allclose(y.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(y.std(0), 1, rtol=1e-5)


def test_it_changes_nothing_before_data_and_cuts_at_ten_after():
    far = jnp.array([1e5, -1e5], jnp.float32)
    np.testing.assert_array_equal(Normalizer(2)(far), far)
    x = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
    np.testing.assert_array_equal(update(Normalizer(2), x)(far), [10, -10])


def test_a_constant_coordinate_stays_finite():
    normalizer = update(Normalizer(2), np.full((100, 2), 3, np.float32))
    np.testing.assert_allclose(normalizer(jnp.full(2, 3, jnp.float32)), 0, atol=1e-2)


def test_vmap_is_a_loop_over_members():
    x = np.random.default_rng(0).normal(size=(2, 100, 2)).astype(np.float32)
    members = [Normalizer(2), update(Normalizer(2), x[0])]
    stacked = jax.vmap(Normalizer.update)(jax.tree.map(lambda *leaves: jnp.stack(leaves), *members), x)
    for i, member in enumerate(members):
        one = update(member, x[i])
        for together, alone in zip(jax.tree.leaves(stacked), jax.tree.leaves(one)):
            np.testing.assert_allclose(together[i], alone, rtol=1e-5, atol=1e-6)


def test_the_return_by_hand():
    # gamma = 1/2: G = 1, 2 + 1/2, then the episode ends; 4; the chunk ends; 1 + 4/2.
    scale = update_returns(ReturnScale(), jnp.array([1.0, 2, 4], jnp.float32), jnp.array([False, True, False]), 0.5)
    np.testing.assert_allclose(scale.seen.mean, [(1 + 2.5 + 4) / 3], rtol=1e-6)
    assert scale.open == 4
    scale = update_returns(scale, jnp.array([1.0, 0, 0], jnp.float32), jnp.array([True, False, False]), 0.5)
    np.testing.assert_allclose(scale.scale, np.std([1, 2.5, 4, 3, 0, 0]), rtol=1e-6)
    assert scale.open == 0
    assert scale.scale.dtype == jnp.float32


def test_rewards_in_chunks_are_rewards_at_once():
    rng = np.random.default_rng(0)
    reward, last = rng.normal(size=90).astype(np.float32), rng.random(90) < 0.1
    whole = update_returns(ReturnScale(), reward, last, 0.9)
    parts = ReturnScale()
    for i in range(0, 90, 30):
        parts = update_returns(parts, reward[i : i + 30], last[i : i + 30], 0.9)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(parts)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_scale_is_proportional_to_the_reward_and_one_while_nothing_is_known():
    reward, last = np.array([1.0, 2, 4], np.float32), np.array([False, True, False])
    once, thrice = (update_returns(ReturnScale(), factor * reward, last, 0.5).scale for factor in (1, 3))
    np.testing.assert_allclose(thrice, 3 * once, rtol=1e-6)
    assert ReturnScale().scale == 1
    ends = np.array([True, True, True])
    for r in (0.0, 0.1):  # episodes of one step with one reward
        assert update_returns(ReturnScale(), np.full(3, r, np.float32), ends, 0.5).scale == 1
