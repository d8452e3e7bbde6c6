"""What on-policy agents share: a round is what it is whatever the ring, and what is known is found."""

import re
from dataclasses import replace
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.dual_ac.agent import DUAL_AC
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.shared.baseline import passes, value
from sbeed.agents.shared.on_policy import check
from sbeed.agents.trpo.agent import TRPO
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.data import replay as ring
from sbeed.envs import lqr, probe
from sbeed.models.normalize import Normalizer
from sbeed.training.trainer import Trainer
from tests.agents.offline import BOX, DISCRETE, assert_close, drawn

SIZES = dict(
    hidden=(8,), features=10, V_updates=5, V_batch_size=16, steps_per_iteration=32, replay_capacity=32, gamma=0.9
)
LINEAR = dict(policy="rbf", V="linear")
AGENTS = [(TRPO, TRPOConfig(**SIZES)), (DUAL_AC, DualACConfig(k=3, **SIZES))]
BY_NAME = dict(argnames=("agent", "config"), argvalues=AGENTS, ids=[agent.name for agent, _ in AGENTS])


@cache
def _iterate(agent, config, spec, together=False):
    solo = partial(agent.iterate, config, spec)
    return jax.jit(jax.vmap(solo) if together else solo)


@pytest.mark.parametrize(
    ("agent", "config", "fields", "spec"),
    [(*AGENTS[0], LINEAR, BOX), (*AGENTS[0], {"V": "linear"}, DISCRETE), (*AGENTS[1], LINEAR, BOX)],
    ids=["trpo-linear", "trpo-mlp", "dual_ac-linear"],
)
def test_a_population_is_its_members_and_half_a_ring_is_a_round(agent, config, fields, spec):
    config = replace(config, **fields)
    keys = jax.random.split(jax.random.key(0), 2)
    states = [agent.init(config, spec, k) for k in keys]
    filled = lambda capacity: [ring.insert(ring.empty(spec, capacity), drawn(k, (32,), spec, ends=0.2)) for k in keys]
    alone = [_iterate(agent, config, spec)(*one) for one in zip(states, filled(32), keys)]
    # In a ring of twice the length every state stands twice in the Fisher matrix, and nothing twice elsewhere.
    stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)
    together = _iterate(agent, replace(config, replay_capacity=64), spec, together=True)(
        stack(states), stack(filled(64)), keys
    )
    for i, one in enumerate(alone):
        assert_close(jax.tree.map(lambda x, i=i: x[i], together), one, 2e-3)
    assert {x.dtype for x in jax.tree.leaves(alone)} <= {jnp.dtype("float32"), jnp.dtype("int32")}


@pytest.mark.parametrize(**BY_NAME)
def test_a_round_counts_in_the_scales_for_what_it_is(agent, config):
    config = replace(config, **LINEAR)
    state = agent.init(config, BOX, jax.random.key(0))
    path = drawn(jax.random.key(0), (5,), ends=0.2)
    after, metrics = _iterate(agent, config, BOX)(state, ring.insert(ring.empty(BOX, 32), path), jax.random.key(1))
    alone = state.scales.returns.update(path.reward, path.last, config.gamma)
    assert_close(after.scales, state.scales._replace(observations=Normalizer(3).update(path.obs), returns=alone), 1e-6)
    assert metrics["transitions"] == 5
    assert 0 < metrics["kl"] <= 1.2 * config.kl_radius  # without a line search, to second order


def test_V_s_batches_are_passes_over_the_round():
    rows = passes(jax.random.key(0), 32, (5, 16))  # two passes and a half
    first, second = (rows[i : i + 2].ravel() for i in (0, 2))
    assert set(first.tolist()) == set(second.tolist()) == set(range(32))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"steps_per_iteration": 64}, "steps_per_iteration: must not exceed replay_capacity, 32, got 64"),
        ({"kl_radius": 0.0}, "kl_radius: must lie in (0, inf), got 0.0"),
    ],
)
def test_a_config_that_cannot_run(fields, complaint):
    with pytest.raises(ValueError, match=re.escape(complaint)):
        check(replace(AGENTS[0][1], **fields), BOX)


# ------------------------------------------------------------------------------------------------- known answers

PROBE = dict(
    gamma=0.9,
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
LEARNERS = [(TRPO, TRPOConfig(gae_lambda=0.8, **PROBE)), (DUAL_AC, DualACConfig(k=3, **PROBE))]
LEARNS = dict(argnames=("agent", "config"), argvalues=LEARNERS, ids=[agent.name for agent, _ in LEARNERS])


def _trained(agent, config, env, rounds=60):
    trainer = Trainer(agent, env, config, seeds=[0])
    for _ in range(rounds):
        trainer.advance(config.steps_per_iteration)
    return trainer.member(0)


@pytest.mark.parametrize(
    ("agent", "config", "box", "policy"),
    [(*learner, *kind) for learner in LEARNERS for kind in ((False, "mlp"), (True, "rbf"))],
    ids=[f"{agent.name}-{kind}" for agent, _ in LEARNERS for kind in ("discrete", "box")],
)
def test_the_policy_finds_the_better_action(agent, config, box, policy):
    env = probe.ActionObservationReward(box=box)
    pi = agent.actor(config, _trained(agent, replace(config, policy=policy, V="linear"), env))
    obs = np.array([[-1.0], [1.0]], np.float32)
    np.testing.assert_allclose(pi.mode(obs), env.best_action(obs), atol=0.1)


@pytest.mark.parametrize(("kind", "V"), [(probe.TimeLimit, "linear"), (probe.Termination, "mlp")])
@pytest.mark.parametrize(**LEARNS)
def test_V_bootstraps_at_a_time_limit_alone(agent, config, kind, V):
    state = _trained(agent, replace(config, policy="rbf", V=V), kind(box=True))
    obs = jnp.arange(6, dtype=jnp.float32)[:, None] / 5
    v = value(state.V, state.scales.observations(obs))
    # Every step pays 1. No step starts in the sixth state, so its V follows from the others and is not 1 / (1 - gamma).
    reached = v[1:] if kind is probe.TimeLimit else v[1:].at[-1].set(0)
    np.testing.assert_allclose(v[:-1], 1 + config.gamma * reached, atol=0.1)
    assert bool(v[0] > 5) is (kind is probe.TimeLimit)  # five steps without what follows are worth 4.1


@pytest.mark.parametrize(**LEARNS)
def test_the_lqr_s_optimal_gain(agent, config):
    env = lqr.LQR()
    sizes = dict(hidden=(), V="linear", features=50, steps_per_iteration=2_000, replay_capacity=2_000)
    scales = dict(normalize_observations=False, normalize_rewards=True)
    state = _trained(agent, replace(config, kl_radius=0.02, **sizes, **scales), env, rounds=120)
    # Entropy changes the width of the optimal policy, not its gain.
    gain = lqr.soft_optimum(env, config.gamma, 0.01).K
    s = np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32)
    assert np.abs(state.pi.mode(s) - s @ gain.T).mean() < 0.25 * (s @ gain.T).std()
