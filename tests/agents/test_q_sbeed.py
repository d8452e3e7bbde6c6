"""The Q-form's learner: each knob moves the parameters, and the answers that are known are found at kappa 1."""

from dataclasses import fields as fields_of
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sbeed.agents.q_sbeed import agent, equations
from sbeed.agents.q_sbeed import dual as duals
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.q_sbeed.learner import check, policy
from sbeed.agents.registry import configured
from sbeed.data import replay as ring
from sbeed.data.replay import sample
from sbeed.envs import probe
from sbeed.envs.tabular import garnet
from sbeed.theory import operators
from sbeed.types import EnvSpec
from tests.agents.offline import coin, garnet_path, learner, uniform
from tests.agents.paths import path

SMALL = QConfig(
    gamma=0.9,
    backward="kappa",
    kappa=1.0,
    k=1,
    trace=1.0,
    dual_ridge=1.0,
    dual_step_size=0.1,
    lam=0.1,
    adapt_lam=False,
    hidden=(32,),
    batch_size=64,
    replay_capacity=1_000,
    warmup=100,
    updates_per_iteration=1_500,
    pi_every=1,
    pi_step_size=3e-3,
    normalize_observations=False,
    normalize_rewards=False,
)


def _probe(kind, box, steps):
    env = kind(box=box)
    data = path(env, jax.random.key(0), steps, uniform if box else coin)
    return env, replace(env.spec, name="probe", time_limit=None), data


# ---------------------------------------------------------------------------------------------- every knob counts

STEPS = 20  # after which nu is no longer zero, so that its part of the gradient is alive


@cache
def _parameters(box, **changes):
    """What twenty updates make of the first weights."""
    config = replace(SMALL, updates_per_iteration=STEPS, **changes)
    _, spec, data = _probe(probe.DelayedReward, box, 1_000)
    check(config, spec)
    state, _ = learner(agent, config, spec)(data, jax.random.key(1))
    return jnp.concatenate([x.ravel() for x in jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array))])


@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
@pytest.mark.parametrize(
    ("base", "changes"),
    [
        ({}, {"eta": 0.5}),
        ({"eta": 0.5}, {"kappa": 0.5}),
        ({}, {"kappa": 0.0}),
        ({"backward": "descent", "kappa": 0.0}, {"kappa": 0.9}),
        ({}, {"dual_ridge": 0.5}),
        ({}, {"dual_step_size": 0.3}),
        ({}, {"dual_steps": 3}),
        ({"dual": "net", "dual_step_size": 1e-3}, {"dual_ridge": 0.5}),
        ({"dual": "linear"}, {"dual_ridge": 0.5}),
        ({"k": 4, "trace": 0.5}, {"trace": 0.9}),
        ({}, {"Q_step_size": 2e-3}),
        ({}, {"momentum": 0.1}),
        ({"normalize_observations": True}, {"least_std": 5.0}),
    ],
    ids=str,
)
def test_a_knob_of_the_objective_moves_the_parameters(box, base, changes):
    before, after = _parameters(box, **base), _parameters(box, **{**base, **changes})
    assert not np.array_equal(before, after)


def test_the_cosine_asked_for_moves_the_parameters_from_the_second_round_on():
    # In the first round nu is still zero where the angle is measured, and so is the backward half.
    config = replace(SMALL, backward="descent", kappa=0.0, updates_per_iteration=STEPS)
    _, spec, data = _probe(probe.DelayedReward, True, 1_000)
    replay = ring.insert(ring.empty(spec, config.replay_capacity), data)
    first, _ = learner(agent, config, spec)(data, jax.random.key(1))

    @jax.jit
    def again(descent):
        found = agent.iterate(replace(config, descent=descent), spec, first, replay, jax.random.key(2))
        return found[0].Q.net.net.weights, found[1]["backward"]

    (near, share), (far, other) = again(0.99), again(0.5)
    assert share > other
    assert not np.array_equal(near[0], far[0])


def test_kappa_and_eta_decide_by_how_much_the_backward_part_counts():
    # With nu = 0, the first state's, the gradient of L_eta at eta = 1 has no backward part: one update tells no kappa.
    one = replace(SMALL, updates_per_iteration=1)
    _, spec, data = _probe(probe.DelayedReward, False, 1_000)
    learn = lambda config: learner(agent, config, spec)(data, jax.random.key(1))[0].Q.net.net.weights
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), learn(one), learn(replace(one, kappa=0.0)))
    # At eta = 0 it is alive from the first: the residual gradient.
    pcl = replace(one, eta=0.0, dual="none")
    assert not jax.tree.all(jax.tree.map(partial(np.allclose, atol=1e-6), learn(pcl), learn(replace(pcl, kappa=0.0))))


def _look(config, spec, state, batch):
    """The errors of a batch, what a dual sees of it, and V at the states reached."""
    after = agent.draw_next(config, spec, state, batch, jax.random.key(2))
    values, looked, _ = agent.linearized(config, state, batch, after)
    return agent.errors(config, batch, values), looked.seen, values.v_next


@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"kappa": 0.3, "k": 4, "trace": 0.5}, {"eta": 0.3, "kappa": 0.5, "k": 4}, {"norm": "batch", "k": 4}],
    ids=str,
)
def test_the_step_of_Q_is_along_autodiff_of_L_eta(box, fields):
    config = replace(SMALL, hidden=(16, 16), **fields)
    state, batch, after = _some_state(config, box)
    values, looked, pull = agent.linearized(config, state, batch, after)
    nu = duals.nu(state.dual, looked.seen)
    rho = values.q.reshape(nu.shape) + nu

    def L(q):
        found, _, _ = agent.linearized(config, state._replace(Q=q), batch, after)
        own = found.q.reshape(nu.shape)
        delta = equations.with_backward_share(agent.errors(config, batch, found) + own, config.kappa)
        return jnp.sum(jnp.mean((delta - own) ** 2 - config.eta * (delta - rho) ** 2, axis=1))

    g = agent.gradient(config, batch, values, nu, pull, jnp.float32(config.kappa))
    # A share of the path's other Q(s, a) is held too, as the rest of delta is: autodiff of that objective is the step.
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-3, atol=1e-4), g, eqx.filter_grad(L)(state.Q))


@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
def test_with_descent_the_step_is_within_the_angle_asked_for(box):
    # At eta 0 no dual is between the error and its mean: the angle measured is that of the very step.
    config = replace(
        SMALL, hidden=(16, 16), k=4, trace=0.5, backward="descent", kappa=0.0, eta=0.0, dual="none", twins=1
    )
    state, batch, after = _some_state(config, box)
    values, looked, pull = agent.linearized(config, state, batch, after)
    nothing = duals.nu(state.dual, looked.seen)
    step = lambda share: agent.gradient(config, batch, values, nothing, pull, share)
    spec = _probe(probe.DelayedReward, box, 2)[1]
    fresh = state._replace(products=jnp.zeros(3, jnp.float32))
    found = agent.measured_products(config, spec, fresh, batch, jax.random.key(2))
    whole, shares = ravel_pytree(step(jnp.float32(1)))[0], []
    for cosine in (0.9, 0.99, 0.999):
        share = agent.backward_share(replace(config, descent=cosine), state._replace(products=found))
        along = ravel_pytree(step(share))[0]
        assert float(jnp.vdot(along, whole) / jnp.linalg.norm(along) / jnp.linalg.norm(whole)) >= cosine - 1e-4
        shares.append(float(share))
    assert shares == sorted(shares)
    assert 0 < shares[-1] < 1
    # kappa is where the share begins.
    least = replace(config, descent=0.0, kappa=0.7)
    assert float(agent.backward_share(least, state._replace(products=found))) == pytest.approx(0.7)


def _some_state(config, box):
    """A learner after some updates, a batch of paths and the next actions."""
    _, spec, data = _probe(probe.DelayedReward, box, 1_000)
    state, _ = learner(agent, replace(config, updates_per_iteration=STEPS), spec)(data, jax.random.key(1))
    replay = ring.insert(ring.empty(spec, config.replay_capacity), data)
    batch = sample(replay, jax.random.key(3), 64 // config.k, config.k)
    return state, batch, agent.draw_next(config, spec, state, batch, jax.random.key(2))


@pytest.mark.parametrize("dual", ["head", "net"])
def test_twenty_steps_of_the_dual_fit_better_than_one(dual):
    step_size = 0.5 if dual == "head" else 1e-3
    config = replace(SMALL, dual=dual, dual_step_size=step_size, dual_ridge=0.0)
    _, spec, data = _probe(probe.DelayedReward, False, 1_000)
    state = agent.init(config, spec, jax.random.key(0))
    replay = ring.insert(ring.empty(spec, config.replay_capacity), data)
    batch = sample(replay, jax.random.key(1), 256, 1)
    error, seen, _ = _look(config, spec, state, batch)

    def left(steps):
        fit, _ = duals.fitted(replace(config, dual_steps=steps), state.dual, state.opt["dual"], seen, error)
        return float(jnp.mean((error - duals.nu(fit, seen)) ** 2))

    assert left(20) < left(1) < float(jnp.mean(error**2))


def test_the_ridge_bounds_what_the_dual_explains():
    config = replace(SMALL, dual="linear", dual_ridge=1.0)
    _, spec, data = _probe(probe.DelayedReward, False, 1_000)
    state = agent.init(config, spec, jax.random.key(0))
    replay = ring.insert(ring.empty(spec, config.replay_capacity), data)
    batch = sample(replay, jax.random.key(1), 256, 1)
    error, seen, _ = _look(config, spec, state, batch)
    nu = duals.nu(duals.fitted(config, state.dual, state.opt["dual"], seen, error)[0], seen)
    norm = lambda x: jnp.sqrt(jnp.mean(x**2))
    assert float(norm(nu)) <= float(norm(error)) / (1 + config.dual_ridge)


def _first_batch(config):
    """A first state, and a batch of the probe whose actions are discrete."""
    _, spec, data = _probe(probe.DelayedReward, False, 1_000)
    state = agent.init(config, spec, jax.random.key(0))
    return spec, state, sample(ring.insert(ring.empty(spec, 1_000), data), jax.random.key(1), 256, 1)


def test_a_bootstrap_stays_where_the_solution_is():
    config = replace(SMALL, lam=0.5)
    spec, state, batch = _first_batch(config)
    high = eqx.tree_at(lambda q: q.net.net.biases[-1], state.Q, replace_fn=lambda b: b + 1e4)
    state = state._replace(Q=high, largest_reward=jnp.float32(2))
    _, _, v_next = _look(config, spec, state, batch)
    # (max |r| + lam log 2) / (1 - .9), of two actions
    np.testing.assert_allclose(v_next, 10 * (2 + 0.5 * np.log(2)), rtol=1e-5)


def test_lam_rises_when_the_entropy_is_too_low():
    def after(**fields):
        config = replace(SMALL, adapt_lam=True, **fields)
        spec, state, batch = _first_batch(config)
        return agent.update_pi(config, spec, state, batch.obs[:, 0], jax.random.key(2))[0].log_lam

    assert after(entropy_target=5.0) > np.log(0.1) > after(entropy_target=-5.0)


def test_the_average_follows_slowly_and_that_of_a_young_policy_quickly():
    config = replace(SMALL, average_rate=0.01, updates_per_iteration=10)
    state = _first_batch(config)[1]
    rates = [float(agent._average_rate(config, state._replace(iteration=jnp.asarray(i)))) for i in (0, 1, 9, 1000)]
    np.testing.assert_allclose(rates, [1, 0.5, 0.1, 0.01])
    assert agent.deployed(config, state) is state.averaged


@pytest.mark.parametrize(
    ("kind", "preset", "fields", "name"),
    [
        ("box", "default", {"k": 1, "trace": 0.9}, "trace"),
        ("box", "gradient", {"kappa": 0.0, "eta": 0.5}, "eta"),
        ("box", "gradient", {"descent": 0.9}, "descent"),
        ("box", "default", {"adapt_lam": False, "lam_step_size": 1e-3}, "lam_step_size"),
        ("discrete", "default", {"adapt_lam": False, "entropy_target": 0.5}, "entropy_target"),
        ("box", "default", {"clone_steps": 5}, "clone_steps"),
        ("box", "offline", {"kl_target": 0.5}, "kl_target"),
        ("box", "default", {"dual": "none", "eta": 0.0, "dual_ridge": 0.5}, "dual_ridge"),
        ("box", "default", {"dual": "linear", "dual_steps": 5}, "dual_steps"),
        ("discrete", "default", {"pi_step_size": 1e-3}, "pi_step_size"),
        ("box", "default", {"slow_rate": 0.1}, "slow_rate"),
        ("box", "default", {"normalize_observations": False, "least_std": 0.1}, "least_std"),
        ("discrete", "default", {"return_scale": 5.0}, "return_scale"),
    ],
)
def test_a_knob_that_would_do_nothing_is_refused_in_one_line(kind, preset, fields, name):
    spec = EnvSpec("task", 3, kind, 2, None)
    with pytest.raises(ValueError, match=f"^{name}: does nothing here: it needs [^\n]+$"):
        configured("sbeed", preset, spec, fields)


def test_a_knob_that_is_read_or_left_as_it_is_passes():
    spec = EnvSpec("task", 3, "box", 2, None)
    assert configured("sbeed", "default", spec, {"k": 8, "trace": 0.9}).trace == 0.9
    whole = {f.name: getattr(QConfig(), f.name) for f in fields_of(QConfig)}
    assert configured("sbeed", "default", spec, whole | {"kappa": 0.0, "eta": 0.0, "dual": "none"}).eta == 0


# ---------------------------------------------------------------------------------------------- known answers


@pytest.mark.parametrize("kind", probe.PROBES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])
def test_probe(box, kind):
    config = replace(SMALL, lam=0.01, Q_step_size=3e-3)
    env, spec, data = _probe(kind, box, config.replay_capacity)
    state, _ = learner(agent, config, spec)(data, jax.random.key(1))
    pi = policy(state)
    action = pi.squash(pi.mode(data.obs)) if box else None
    v = (state.Q(data.obs, action) if box else state.Q(data.obs).max(-1)).min(0)
    expected = env.value(data.obs, config.gamma)
    if kind is probe.TimeLimit:
        # No step starts where the limit ends, so V there is a guess: what can be asked for is that it counts.
        assert v.min() > 5
        return
    # lam > 0 adds at most lam log 2 a step, .07 in all at gamma .9.
    np.testing.assert_allclose(v, expected, atol=0.2)
    if hasattr(env, "best_action"):
        found = action if box else pi.mode(data.obs)
        np.testing.assert_allclose(found, env.best_action(data.obs), atol=0.1)


def _garnet(dual, eta):
    """V and pi that tables learn, and the optimum: stochastic transitions, data of another policy, kappa 1."""
    mdp = garnet(jax.random.key(3), states=6, actions=3)
    lam, spec = 0.5, EnvSpec("garnet", 6, "discrete", 3, None)
    # Without hidden layers, one-hot states make tables of Q and, with an output per action, of nu.
    config = replace(
        SMALL,
        gamma=float(mdp.gamma),
        lam=lam,
        eta=eta,
        dual=dual,
        dual_ridge=0.0,
        dual_step_size=5.0,
        norm="none",
        hidden=(),
        twins=1,
        Q_step_size=0.02,
        batch_size=1_000,
        replay_capacity=20_000,
        updates_per_iteration=4_000,
    )

    state, _ = learner(agent, config, spec)(garnet_path(mdp, config.replay_capacity), jax.random.key(1))
    V = lam * jax.nn.logsumexp(state.Q(jnp.eye(6))[0] / lam, axis=-1)
    return V, policy(state).distribution(jnp.eye(6)).log_probs, operators.soft_optimum(mdp, lam)


@pytest.mark.parametrize("dual", ["linear", "head"])
def test_a_garnet_s_soft_optimum_with_tables(dual):
    """The optimum is that of the (V, pi) form."""
    V, log_pi, optimum = _garnet(dual, eta=1.0)
    # The path's own optimum differs from the MDP's by about its statistical error, 20 000^-1/2 of V / (1 - gamma).
    np.testing.assert_allclose(V, optimum.V, atol=0.2)
    np.testing.assert_allclose(jnp.exp(log_pi), jnp.exp(optimum.log_pi), atol=0.04)


def test_half_a_dual_leaves_half_the_bias_of_the_squared_samples():
    V, _, optimum = _garnet("linear", eta=0.5)
    assert np.all(V < optimum.V - 0.4)
