"""SAC: its equations by hand, each player's step, and that it learns where the answer is known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sbeed.agents.sac import agent, equations
from sbeed.agents.sac.config import SACConfig
from sbeed.envs import probe
from sbeed.training.trainer import Trainer
from sbeed.types import EnvSpec
from tests.agents.offline import BOX, learner, single_steps, uniform
from tests.agents.paths import path

CONFIG = SACConfig(hidden=(8,), batch_size=8)

_update = jax.jit(agent.update, static_argnums=1)


def _updated(config, updates=3):
    state = agent.init(config, BOX, jax.random.key(0))
    for i in range(updates):
        state, metrics = _update(config, BOX, state, single_steps(i), jax.random.key(i))
    return state, metrics


# ------------------------------------------------------------------------------------------------- equations


def test_equations_by_hand():
    q, log_pi = jnp.array([[1.0, 5.0], [2.0, 3.0]]), jnp.array([-1.0, 2.0])
    v = equations.soft_value(q, log_pi, lam=0.5)
    np.testing.assert_allclose(v, [1 + 0.5, 3 - 1])  # min(1, 2) + .5 * 1, min(5, 3) - .5 * 2
    # 10 + .9 * 1.5 where the episode goes on, 20 alone where it has ended
    target = equations.Q_target(jnp.array([10.0, 20.0]), v, jnp.array([False, True]), gamma=0.9)
    np.testing.assert_allclose(target, [11.35, 20])
    # (9^2 + 15^2) / 2 + (8^2 + 17^2) / 2 = 153 + 176.5
    np.testing.assert_allclose(equations.Q_loss(q, jnp.array([10.0, 20.0])), 329.5)
    np.testing.assert_allclose(equations.pi_loss(q, log_pi, lam=0.5), -(1.5 + 2) / 2)
    # an entropy of -(-1 + 2) / 2 = -.5 is 1.5 above -2
    np.testing.assert_allclose(equations.log_lam_gradient(log_pi, entropy_target=-2.0), 1.5)


# ------------------------------------------------------------------------------------------------- players' steps


def test_critics_step_towards_the_slow_copies_soft_value_at_actions_as_the_environment_gets_them():
    state, _ = _updated(CONFIG)  # so that Q and its slow copy differ
    batch, key = single_steps(5), jax.random.key(5)
    raw, log_pi = state.pi.sample(batch.next_obs, jax.random.split(key)[0])
    v = state.Q_slow(batch.next_obs, jnp.tanh(raw)).min(0) - jnp.exp(state.log_lam) * log_pi
    target = batch.reward + 0.99 * jnp.where(batch.terminated, 0, v)
    _, metrics = _update(CONFIG, BOX, state, batch, key)
    error = target - state.Q(batch.obs, jnp.tanh(batch.action))
    np.testing.assert_allclose(metrics["Q_error"], jnp.mean(error**2), rtol=1e-5)


def test_slow_copies_follow_slowly():
    start = agent.init(CONFIG, BOX, jax.random.key(0))
    state, _ = _updated(CONFIG, updates=1)
    fast, slow, before = (ravel_pytree(tree)[0] for tree in (state.Q, state.Q_slow, start.Q))
    np.testing.assert_allclose(slow - before, 0.005 * (fast - before), rtol=0.05, atol=1e-7)


def test_lam_rises_when_the_entropy_is_too_low():
    low, _ = _updated(replace(CONFIG, entropy_target=5.0))
    high, _ = _updated(replace(CONFIG, entropy_target=-5.0))
    held, _ = _updated(replace(CONFIG, lam_step_size=0.0))
    assert low.log_lam > held.log_lam == 0 > high.log_lam


def test_a_population_is_its_members():
    each = [jax.tree.map(np.float32, replace(CONFIG, **one)) for one in ({}, {"gamma": 0.5, "lam": 0.05})]
    configs = jax.tree.map(lambda *x: jnp.stack(x), *each)
    states = jax.vmap(lambda c: agent.init(c, BOX, jax.random.key(0)))(configs)
    update = lambda config, state: agent.update(config, BOX, state, single_steps(), jax.random.key(0))
    states, _ = jax.jit(jax.vmap(update))(configs, states)
    for i, config in enumerate(each):
        alone, _ = _updated(config, updates=1)
        for x, y in zip(jax.tree.leaves(states), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(x[i], y, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------- learning


def test_probes():
    """Q bootstraps and stops where it should, pi finds the action: offline, from uniform actions."""
    config = SACConfig(
        gamma=0.8,
        lam=0.01,
        lam_step_size=0.0,
        Q_step_size=3e-3,
        pi_step_size=3e-3,
        slow_rate=0.05,
        hidden=(32,),
        batch_size=64,
        replay_capacity=500,
        updates_per_iteration=1_000,
    )
    spec = replace(probe.TimeLimit(box=True).spec, name="probe", time_limit=None)
    for env in (probe.TimeLimit(box=True), probe.Termination(box=True), probe.ActionObservationReward(box=True)):
        data = path(env, jax.random.key(0), config.replay_capacity, uniform)
        state, _ = learner(agent, config, spec)(data, jax.random.key(1))
        mode = state.pi.squash(state.pi.mode(data.obs))
        v = state.Q(data.obs, mode).min(0)
        # TimeLimit's V is 5, and no step starts where it ends: Q there is extrapolated.
        tolerance = 0.6 if isinstance(env, probe.TimeLimit) else 0.15
        np.testing.assert_allclose(v, env.value(data.obs, config.gamma), atol=tolerance, err_msg=env.name)
        if hasattr(env, "best_action"):
            np.testing.assert_allclose(mode, env.best_action(data.obs), atol=0.1)


def test_it_learns_what_it_collects():
    config = SACConfig(
        hidden=(16,),
        lam=0.1,
        Q_step_size=3e-3,
        pi_step_size=3e-3,
        lam_step_size=3e-3,
        batch_size=32,
        replay_capacity=1_000,
        warmup=64,
        steps_per_iteration=32,
        updates_per_iteration=64,
    )
    trainer = Trainer(agent.SAC, probe.ActionObservationReward(box=True), config, seeds=[0])
    for _ in range(12):
        trainer.advance(32)
    assert trainer.evaluate(8).returns.mean() > -0.02  # -1/4 for doing nothing
    assert set(trainer.metrics) == {"Q", "Q_largest", "Q_error", "reward_largest", "entropy", "lam_now"}


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("fields", "spec", "complaint"),
    [
        ({}, EnvSpec("lake", 3, "discrete", 4, None), "env: SAC needs a box of actions, those of lake are discrete"),
        ({"lam": 0.0}, BOX, r"lam: must lie in \(0, inf\), got 0.0"),
        ({"replay_capacity": 32}, BOX, "steps_per_iteration: must not exceed the replay, got 64"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(fields, spec, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        agent.check(replace(SACConfig(), **fields), spec)


def test_presets():
    agent.check(agent.SAC.preset("default", BOX), BOX)
    with pytest.raises(ValueError, match=r"^preset: must be one of default, got 'fast'$"):
        agent.SAC.preset("fast", BOX)
