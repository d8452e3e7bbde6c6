"""TRPO: advantages by hand, the trust region as a law, and answers that are known."""

import re
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.trpo import agent, equations
from sbeed.agents.trpo.agent import TRPO
from sbeed.agents.trpo.baseline import value
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.data import replay as ring
from sbeed.envs import lqr, probe
from sbeed.models.features import Identity
from sbeed.models.nets import MLP
from sbeed.models.policies import Gaussian, LinearGaussian
from sbeed.training.trainer import Trainer
from sbeed.types import EnvSpec, Transition

BOX = EnvSpec("box", 3, "box", 2, None)
DISCRETE = EnvSpec("discrete", 3, "discrete", 4, None)
SMALL = TRPOConfig(
    hidden=(8,), features=10, V_updates=5, V_batch_size=16, steps_per_iteration=32, replay_capacity=32, gamma=0.9
)


def _path(key, spec, steps):
    keys = jax.random.split(key, 6)
    normal = lambda k, *shape: jax.random.normal(k, (steps, *shape), jnp.float32)
    action = normal(keys[1], 2) if spec is BOX else jax.random.randint(keys[1], (steps,), 0, 4)
    last = jax.random.bernoulli(keys[4], 0.2, (steps,))
    terminated = last & jax.random.bernoulli(keys[5], 0.5, (steps,))
    return Transition(normal(keys[0], 3), action, normal(keys[2]), normal(keys[3], 3), terminated, last)


def _assert_close(one, two, tolerance):
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------- advantages


def test_advantages_by_hand():
    # gamma = gae_lambda = 1/2, so an advantage passes on a quarter of the one after it.
    #        goes on   terminates   time limit   goes on   the data end
    r = [1.0, 2.0, 3.0, 4.0, 5.0]
    v = [1.0, 2.0, 3.0, 4.0, 5.0]
    v_next = [2.0, 8.0, 6.0, 5.0, 4.0]
    terminated = [False, True, False, False, False]
    last = [False, True, True, False, False]
    # Errors r + v_next / 2 - v: 1 + 1 - 1 = 1;  2 + 0 - 2 = 0;  3 + 3 - 3 = 3;  4 + 2.5 - 4 = 2.5;  5 + 2 - 5 = 2.
    expected = [1 + 0 / 4, 0, 3, 2.5 + 2 / 4, 2]
    got = equations.advantages(*(jnp.array(x) for x in (r, v, v_next, terminated, last)), gamma=0.5, gae_lambda=0.5)
    np.testing.assert_allclose(got, expected)


def test_standardized_advantages_ignore_what_does_not_count_and_survive_a_constant():
    x, weight = jnp.array([99.0, 1.0, 2.0, 3.0]), jnp.array([0.0, 1.0, 1.0, 1.0]) / 3
    np.testing.assert_allclose(equations.standardized(x, weight)[1:], np.array([-1, 0, 1]) * np.sqrt(1.5), rtol=1e-6)
    np.testing.assert_allclose(equations.standardized(jnp.full(4, 7.0), weight), 0, atol=1e-6)


# ------------------------------------------------------------------------------------------------- the step


def _round(key, pi, spec, steps=64):
    """Data of pi itself, with advantages that the policy can do something about."""
    k_obs, k_action, k_advantage = jax.random.split(key, 3)
    obs = jax.random.normal(k_obs, (steps, 3), jnp.float32)
    action, log_pi = pi.sample(obs, k_action)
    first = action[:, 0] if spec is BOX else action
    advantage = jnp.tanh(first * obs[:, 0]) + 0.3 * jax.random.normal(k_advantage, (steps,), jnp.float32)
    weight = jnp.full(steps, 1 / steps, jnp.float32)
    return agent.Round(obs, action, log_pi, equations.standardized(advantage, weight), weight, jnp.int32(steps))


@partial(jax.jit, static_argnums=(0, 1))
def _steps(config, spec, radii):
    """What steps of these radii come to, from a policy far from its small beginning, where KL is nearly quadratic."""
    leaves, tree = jax.tree.flatten(agent.init(config, spec, jax.random.key(0)).pi)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    pi = jax.tree.unflatten(tree, [x + 0.5 * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys)])
    seen = _round(jax.random.key(2), pi, spec)
    return jax.vmap(lambda radius: agent.step_pi(replace(config, kl_radius=radius), pi, seen)[1])(radii)


RADII = jnp.array([1e-3, 1e-2, 0.1, 1.0, 10.0], jnp.float32)


@pytest.mark.parametrize(("spec", "policy"), [(BOX, "mlp"), (BOX, "rbf"), (DISCRETE, "mlp")])
def test_a_step_stays_in_its_region_and_does_not_lower_the_surrogate(spec, policy):
    after = _steps(replace(SMALL, policy=policy), spec, RADII)
    assert (after["kl"] <= RADII).all()
    assert (after["surrogate"] > -1e-6).all()  # advantages have mean 0, and so has the surrogate before the step
    assert (after["kl"][:3] > 0.3 * RADII[:3]).all()
    assert after["surrogate"][2] > 0.05


def test_the_natural_policy_gradient_promises_no_radius():
    after = _steps(replace(SMALL, line_search=False), BOX, RADII)
    assert (after["kl"] > 1.1 * RADII).any()


def test_the_closed_form_and_conjugate_gradients_take_the_same_step():
    net = MLP((3, 2), key=jax.random.key(0))  # no hidden layer: linear in (s, 1)
    log_std = jnp.array([-0.5, 0.2], jnp.float32)
    weights = jnp.concatenate([net.weights[0], net.biases[0][None]])
    config = replace(SMALL, fisher_ridge=0.0)
    closed, products = LinearGaussian(Identity(3), weights, log_std), Gaussian(net, log_std)
    seen = _round(jax.random.key(1), products, BOX)
    step = jax.jit(lambda pi: agent.step_pi(config, pi, seen))
    (one, of_one), (two, of_two) = step(closed), step(products)
    assert not np.allclose(one.weights, closed.weights, atol=1e-3)
    _assert_close(one.distribution(seen.obs), two.distribution(seen.obs), 1e-4)
    _assert_close(of_one, of_two, 1e-4)


# ------------------------------------------------------------------------------------------------- a round


LINEAR = replace(SMALL, policy="rbf", V="linear")


@cache
def _iterate(config, spec, together=False):
    solo = partial(agent.iterate, config, spec)
    return jax.jit(jax.vmap(solo) if together else solo)


@pytest.mark.parametrize(("config", "spec"), [(LINEAR, BOX), (SMALL, DISCRETE)], ids=["linear", "mlp"])
def test_a_population_is_its_members_and_half_a_ring_is_a_round(config, spec):
    keys = jax.random.split(jax.random.key(0), 2)
    states = [agent.init(config, spec, k) for k in keys]
    filled = lambda capacity: [ring.insert(ring.empty(spec, capacity), _path(k, spec, 32)) for k in keys]
    alone = [_iterate(config, spec)(*one) for one in zip(states, filled(32), keys)]
    # In a ring of twice the length every state stands twice in the Fisher matrix, and nothing twice elsewhere.
    stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)
    together = _iterate(replace(config, replay_capacity=64), spec, together=True)(
        stack(states), stack(filled(64)), keys
    )
    for i, one in enumerate(alone):
        _assert_close(jax.tree.map(lambda x, i=i: x[i], together), one, 2e-3)
    assert {x.dtype for x in jax.tree.leaves(alone)} <= {jnp.dtype("float32"), jnp.dtype("int32")}


def test_a_round_cut_short_leaves_the_scales_alone():
    state = agent.init(LINEAR, BOX, jax.random.key(0))
    replay = ring.insert(ring.empty(BOX, 32), _path(jax.random.key(0), BOX, 5))
    after, metrics = _iterate(LINEAR, BOX)(state, replay, jax.random.key(1))
    _assert_close(after.scales, state.scales, 0)
    assert metrics["transitions"] == 5
    assert 0 < metrics["kl"] <= LINEAR.kl_radius


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"steps_per_iteration": 64}, "steps_per_iteration: must not exceed replay_capacity, 32, got 64"),
        ({"gae_lambda": 1.5}, "gae_lambda: must lie in [0, 1], got 1.5"),
    ],
)
def test_a_config_that_cannot_run(fields, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        agent.check(replace(SMALL, **fields), BOX)


# ------------------------------------------------------------------------------------------------- known answers

PROBE = TRPOConfig(
    gamma=0.9,
    gae_lambda=0.8,
    hidden=(16,),
    features=20,
    kl_radius=0.05,
    initial_std=0.5,
    normalize_rewards=False,
    steps_per_iteration=200,
    replay_capacity=200,
    V_updates=40,
    V_step_size=5e-3,
)


def _trained(config, env, rounds):
    trainer = Trainer(TRPO, env, config, seeds=[0])
    for _ in range(rounds):
        trainer.advance(config.steps_per_iteration)
    return trainer.member(0)


@pytest.mark.parametrize(("box", "policy"), [(False, "mlp"), (True, "rbf")])
def test_the_policy_finds_the_better_action(box, policy):
    env = probe.ActionObservationReward(box=box)
    pi = agent.actor(PROBE, _trained(replace(PROBE, policy=policy, V="linear"), env, 60))
    obs = np.array([[-1.0], [1.0]], np.float32)
    np.testing.assert_allclose(pi.mode(obs), env.best_action(obs), atol=0.1)


@pytest.mark.parametrize(("kind", "V"), [(probe.TimeLimit, "linear"), (probe.Termination, "mlp")])
def test_the_baseline_bootstraps_at_a_time_limit_alone(kind, V):
    state = _trained(replace(PROBE, policy="rbf", V=V), kind(box=True), 60)
    obs = jnp.arange(6, dtype=jnp.float32)[:, None] / 5
    v = value(state.V, state.scales.observations(obs))
    # Every step pays 1. Nobody acts in the sixth state: its V is what the others make of it, not 1 / (1 - gamma) yet.
    reached = v[1:] if kind is probe.TimeLimit else v[1:].at[-1].set(0)
    np.testing.assert_allclose(v[:-1], 1 + PROBE.gamma * reached, atol=0.1)
    assert bool(v[0] > 5) is (kind is probe.TimeLimit)  # five steps without what follows are worth 4.1


def test_the_lqr_s_optimal_gain():
    env = lqr.LQR()
    sizes = dict(hidden=(), V="linear", features=50, steps_per_iteration=2_000, replay_capacity=2_000)
    scales = dict(normalize_observations=False, normalize_rewards=True)
    config = replace(PROBE, gae_lambda=0.95, kl_radius=0.02, **sizes, **scales)
    state = _trained(config, env, 120)
    # Entropy changes the width of the optimal policy, not its gain.
    gain = lqr.soft_optimum(env, config.gamma, 0.01).K
    s = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    assert np.abs(state.pi.mode(s) - s @ gain.T).mean() < 0.25 * (s @ gain.T).std()
