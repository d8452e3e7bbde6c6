"""The learner's update: what it regresses on, and that a population is nothing but its members."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.sbeed import agent
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.training.population import members
from sbeed.types import EnvSpec, Transition

SPEC = EnvSpec("probe", 3, "box", 2, None)
CONFIG = SBEEDConfig(width=16, batch_size=8, segment_length=4, trace=0.5, replay_share=0.3, kappa=0.05)


def _batch(seed=0, length=4):
    keys = jax.random.split(jax.random.key(seed), 6)
    normal = lambda k, *shape: jax.random.normal(k, (8, length, *shape), jnp.float32)
    last = jax.random.bernoulli(keys[4], 0.3, (8, length))
    terminated = last & jax.random.bernoulli(keys[5], 0.5, (8, length))
    return Transition(normal(keys[0], 3), normal(keys[1], 2), normal(keys[2]), normal(keys[3], 3), terminated, last)


@jax.jit
def _update(config, state, batch, key):
    return agent.update(config, SPEC, state, batch, key)


def _updated(config, updates=3):
    state = agent.init(config, SPEC, jax.random.key(0))
    for i in range(updates):
        state, metrics = _update(config, state, _batch(i), jax.random.key(i))
    return state, metrics


def _assert_close(one, two, tolerance):
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


def test_a_population_is_its_members():
    variants = [{"trace": 0.0}, {"trace": 0.9, "eta": 0.5}, {"kappa": 1.0, "lam": 0.05}]
    configs = members(CONFIG, variants)
    states = jax.vmap(lambda c, k: agent.init(c, SPEC, k))(configs, jax.vmap(jax.random.key)(jnp.zeros(3, int)))
    step = jax.jit(jax.vmap(lambda c, s, b, k: agent.update(c, SPEC, s, b, k), in_axes=(0, 0, None, None)))
    for i in range(3):
        states, _ = step(configs, states, _batch(i), jax.random.key(i))
    for i, variant in enumerate(variants):
        alone, _ = _updated(replace(CONFIG, **variant))
        # Batched matrix products sum in another order; three Adam steps of 3e-4 keep the difference below this.
        _assert_close(jax.tree.map(lambda x, i=i: x[i], states), alone, 2e-5)


def test_without_a_trace_later_steps_do_not_count():
    config = replace(CONFIG, trace=0.0)
    state, batch = agent.init(config, SPEC, jax.random.key(0)), _batch()
    changed = batch._replace(reward=batch.reward.at[:, 1:].set(9.0), action=batch.action.at[:, 1:].set(2.0))
    one, _ = _update(config, state, batch, jax.random.key(1))
    two, _ = _update(config, state, changed, jax.random.key(1))
    _assert_close(one, two, 0)


def test_a_trace_stops_at_the_episode_s_end():
    state, batch = agent.init(CONFIG, SPEC, jax.random.key(0)), _batch()
    batch = batch._replace(last=batch.last.at[:, 1].set(True))
    changed = batch._replace(reward=batch.reward.at[:, 2:].set(9.0))
    one, _ = _update(CONFIG, state, batch, jax.random.key(1))
    two, _ = _update(CONFIG, state, changed, jax.random.key(1))
    _assert_close(one.Q, two.Q, 0)


def test_the_dual_regresses_on_the_one_step_target_by_hand():
    # trace 0: the loss of each critic is the mean of (r + gamma V_slow(s') (1 - terminated) - Q(s, a))^2
    config = replace(CONFIG, trace=0.0)
    state, batch = agent.init(config, SPEC, jax.random.key(0)), _batch()
    v_next = jnp.where(batch.terminated[:, 0], 0, agent.value(state.V_slow, batch.next_obs[:, 0]))
    q = agent.action_values(state.Q, batch.obs[:, 0], jnp.tanh(batch.action[:, 0]))
    expected = jnp.mean((batch.reward[:, 0] + 0.99 * v_next - q) ** 2)
    _, metrics = _update(config, state, batch, jax.random.key(1))
    np.testing.assert_allclose(metrics["dual_loss"], expected, rtol=1e-5)


def test_lam_rises_when_the_entropy_is_too_low():
    low, _ = _updated(replace(CONFIG, entropy_target=5.0))
    high, _ = _updated(replace(CONFIG, entropy_target=-5.0))
    held, _ = _updated(replace(CONFIG, adapt_lam=False))
    assert low.log_lam > held.log_lam > high.log_lam
    assert held.log_lam == pytest.approx(np.log(0.2))


def test_the_slow_copy_follows_slowly():
    state, _ = _updated(CONFIG, updates=1)
    start = agent.init(CONFIG, SPEC, jax.random.key(0))
    moved = jax.tree.map(lambda new, old: jnp.abs(new - old).max(), (state.V, state.V_slow), (start.V, start.V))
    for fast, slow in zip(jax.tree.leaves(moved[0]), jax.tree.leaves(moved[1]), strict=True):
        np.testing.assert_allclose(slow, 0.005 * fast, rtol=0.05, atol=1e-7)
