"""DDPG: its equations by hand, each player's step, its noise, and that it learns where the answer is known."""

from dataclasses import replace

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from jax.flatten_util import ravel_pytree

from sbeed.agents.ddpg import agent, equations
from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.collect import rollout
from sbeed.collect.actor import Actor
from sbeed.collect.vector_actor import VectorActor
from sbeed.envs import probe
from sbeed.envs.hosted import Hosted
from sbeed.training.trainer import Trainer
from sbeed.types import EnvSpec
from tests.agents.offline import BOX, learner, single_steps
from tests.agents.paths import path

CONFIG = DDPGConfig(hidden=(8,), batch_size=8)

_update = jax.jit(agent.update)


def _updated(config, updates=3):
    state = agent.init(config, BOX, jax.random.key(0))
    for i in range(updates):
        state, metrics = _update(config, state, single_steps(i))
    return state, metrics


# ------------------------------------------------------------------------------------------------- the update


def test_equations_by_hand():
    # 10 + .9 * 2 where the episode goes on, 20 alone where it has ended
    target = equations.Q_target(jnp.array([10.0, 20.0]), jnp.array([2.0, 3.0]), jnp.array([False, True]), gamma=0.9)
    np.testing.assert_allclose(target, [11.8, 20])
    np.testing.assert_allclose(equations.Q_loss(jnp.array([1.0, 5.0]), jnp.array([10.0, 20.0])), (81 + 225) / 2)
    np.testing.assert_allclose(equations.pi_loss(jnp.array([1.0, 5.0])), -3)


def test_the_critic_s_target_is_of_both_slow_copies_and_its_actions_are_cut():
    state, _ = _updated(CONFIG)  # so that players and their slow copies differ
    batch = single_steps(5)
    assert jnp.any(jnp.abs(batch.action) > 1)
    q_next = state.Q_slow(batch.next_obs, jnp.tanh(state.pi_slow.net(batch.next_obs)))[0]
    target = batch.reward + 0.99 * jnp.where(batch.terminated, 0, q_next)
    _, metrics = _update(CONFIG, state, batch)
    error = target - state.Q(batch.obs, jnp.clip(batch.action, -1, 1))[0]
    np.testing.assert_allclose(metrics["Q_error"], jnp.mean(error**2), rtol=1e-5)


def test_pi_s_gradient_is_the_deterministic_policy_gradient():
    state, obs = agent.init(CONFIG, BOX, jax.random.key(0)), single_steps().obs
    flat, rebuild = ravel_pytree(state.pi)
    da = jax.jacobian(lambda w: jnp.tanh(rebuild(w).mode(obs)))(flat)  # [B, A, D]
    dq = jax.grad(lambda a: state.Q(obs, a)[0].sum())(jnp.tanh(state.pi.mode(obs)))  # [B, A]
    theorem = jnp.einsum("bad,ba->d", da, dq) / len(obs)
    # pi's gradient is that at the new critic
    after, _ = _update(replace(CONFIG, Q_step_size=0.0), state, single_steps())
    ascended = -10 * ravel_pytree(after.opt["pi"][0].mu)[0]  # Adam's first mean is .1 of the first gradient
    np.testing.assert_allclose(ascended, theorem, rtol=1e-4, atol=1e-7)


def test_slow_copies_follow_slowly():
    start = agent.init(CONFIG, BOX, jax.random.key(0))
    state, _ = _updated(CONFIG, updates=1)
    for fast, slow, before in ((state.Q, state.Q_slow, start.Q), (state.pi, state.pi_slow, start.pi)):
        fast, slow, before = (ravel_pytree(tree)[0] for tree in (fast, slow, before))
        assert not np.array_equal(fast, before)
        np.testing.assert_allclose(slow - before, 0.005 * (fast - before), rtol=0.05, atol=1e-7)


def test_a_population_is_its_members():
    each = [jax.tree.map(np.float32, replace(CONFIG, **one)) for one in ({}, {"gamma": 0.5, "pi_step_size": 0.01})]
    configs = jax.tree.map(lambda *x: jnp.stack(x), *each)
    states = jax.vmap(lambda c: agent.init(c, BOX, jax.random.key(0)))(configs)
    states, _ = jax.jit(jax.vmap(lambda c, s: agent.update(c, s, single_steps())))(configs, states)
    for i, config in enumerate(each):
        alone, _ = _updated(config, updates=1)
        for x, y in zip(jax.tree.leaves(states), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(x[i], y, rtol=1e-4, atol=1e-4)


# ------------------------------------------------------------------------------------------------- the noise


def _noise_on_the_device(env, policy):
    key = jax.random.key(0)
    _, chunk, _ = rollout.collect(env, policy, rollout.begin(env, key), key, length=4000, count=4000, exploring=False)
    return np.asarray(chunk.action)


def _noise_on_the_host(env, policy):
    actor = Actor(lambda: Hosted(env), lambda: Hosted(env), seed=0)
    acting = policy.on_host()
    chunks = [actor.collect(acting, steps)[0].action for steps in (1500, 7, 2493)]  # a chunk's end is no episode's
    return np.concatenate(chunks)


def _noise_in_a_vector(env, policy):
    """Steps on which one environment only resets must not feed its next episode."""
    envs = SyncVectorEnv([lambda: gymnasium.make("Pendulum-v1", max_episode_steps=5)] * 2)
    actor = VectorActor(envs, lambda: Hosted(env), seed=0)
    return actor.collect(policy.on_host(), 4000)[0].action


@pytest.mark.parametrize(
    "noise_of", [_noise_on_the_device, _noise_on_the_host, _noise_in_a_vector], ids=["device", "host", "vector"]
)
@pytest.mark.parametrize("theta", [0.15, 1.0], ids=["Ornstein-Uhlenbeck", "white"])
def test_noise_goes_on_within_an_episode_and_begins_anew_with_each(noise_of, theta):
    env = probe.TimeLimit(box=True)  # episodes of five steps, in which actions do not matter
    config = DDPGConfig(hidden=(), noise_std=0.3, noise_theta=theta)
    size = 3 if noise_of is _noise_in_a_vector else 1
    pi = agent.init(config, replace(env.spec, observation_size=size), jax.random.key(0)).pi
    pi = jax.tree.map(jnp.zeros_like, pi)  # so that an action is its noise
    noise = noise_of(env, agent.noisy(config, pi)).reshape(800, 5)
    # n_t = (1 - theta) n_{t-1} + .3 N(0, 1) from 0; standard errors over 800 episodes are below 3.6%
    variance = 0.09 * np.cumsum((1 - theta) ** (2 * np.arange(5)))
    np.testing.assert_allclose(noise.var(0), variance, rtol=0.2)
    steps = noise[:, 1:] - (1 - theta) * noise[:, :-1]
    np.testing.assert_allclose(steps.std(), 0.3, rtol=0.06)
    assert abs(np.corrcoef(steps.ravel(), noise[:, :-1].ravel())[0, 1]) < 0.06
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, -1])[0, 1]) < 0.12


def test_host_and_device_are_one_policy():
    config = replace(agent.DDPG.preset("paper", BOX), features=5)
    state = agent.init(config, BOX, jax.random.key(0))
    weights = jax.random.normal(jax.random.key(1), state.pi.weights.shape, jnp.float32)
    state = state._replace(pi=eqx.tree_at(lambda p: p.weights, state.pi, weights))
    policy, obs = agent.actor(config, state), single_steps().obs
    host = policy.on_host()
    np.testing.assert_allclose(host.mode(np.asarray(obs)), policy.mode(obs), rtol=1e-5, atol=1e-5)
    raw = np.array([-3.0, 0.2], np.float32)
    np.testing.assert_array_equal(host.squash(raw), policy.squash(raw))
    settled = 0.3 / np.sqrt(1 - 0.85**2)
    np.testing.assert_allclose(np.exp(policy.distribution(obs).log_std), settled, rtol=1e-5)
    draws = host.draw(np.zeros((4000, 3), np.float32), np.random.default_rng(0))
    assert draws.dtype == np.float32
    np.testing.assert_allclose(draws.std(0), settled, rtol=0.05)


# ------------------------------------------------------------------------------------------------- learning


def test_probes():
    """Q bootstraps and stops where it should, pi finds the action: offline, from uniform actions."""
    config = DDPGConfig(
        gamma=0.8,
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
        data = path(env, jax.random.key(0), config.replay_capacity, _uniform)
        state, _ = learner(agent, config, spec)(data, jax.random.key(1))
        action = agent.actor(config, state).mode(data.obs)
        v = agent.value(state.Q, data.obs, action)
        # pi goes where Q errs upwards. TimeLimit's V is 5, and no step starts where it ends: Q there is extrapolated.
        tolerance = 0.6 if isinstance(env, probe.TimeLimit) else 0.3
        np.testing.assert_allclose(v, env.value(data.obs, config.gamma), atol=tolerance, err_msg=env.name)
        if hasattr(env, "best_action"):
            np.testing.assert_allclose(action, env.best_action(data.obs), atol=0.1)


def _uniform(obs, key):
    sent = jax.random.uniform(key, (1,), jnp.float32, -1, 1)
    return sent, sent


def test_the_paper_s_form_learns_what_it_collects():
    env = probe.ActionObservationReward(box=True)
    steps = dict(Q_step_size=1e-2, pi_step_size=1e-3, slow_rate=0.05)
    sizes = dict(features=20, hidden=(16,), batch_size=32, replay_capacity=1_000)
    rounds = dict(warmup=64, steps_per_iteration=32, updates_per_iteration=64)
    config = replace(agent.DDPG.preset("paper", env.spec), **steps, **sizes, **rounds)
    trainer = Trainer(agent.DDPG, env, config, seeds=[0])
    for _ in range(12):
        trainer.advance(32)
    assert trainer.evaluate(8).returns.mean() > -0.02  # -1/4 for doing nothing
    assert set(trainer.metrics) == {"Q", "Q_largest", "Q_error", "reward_largest", "action_size"}


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("fields", "spec", "complaint"),
    [
        ({}, EnvSpec("lake", 3, "discrete", 4, None), "env: DDPG needs a box of actions, those of lake are discrete"),
        ({"noise_theta": 0.0}, BOX, r"noise_theta: must lie in \[0.001, 1\], got 0.0"),
        ({"replay_capacity": 32}, BOX, "steps_per_iteration: must not exceed the replay, got 64"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(fields, spec, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        agent.check(replace(DDPGConfig(), **fields), spec)


def test_presets():
    for name in ("default", "paper"):
        agent.check(agent.DDPG.preset(name, BOX), BOX)
    assert agent.DDPG.preset("paper", replace(BOX, name="HalfCheetah-v5")).features == 500
    with pytest.raises(ValueError, match=r"^preset: must be one of default, paper, got 'fast'$"):
        agent.DDPG.preset("fast", BOX)
