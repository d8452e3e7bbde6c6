"""The learner's update: each player's step against the paper's formula, and that a population is its members."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sbeed.agents.sbeed import agent, equations
from sbeed.agents.sbeed import dual as duals
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.data import replay as ring
from tests.agents.offline import BOX, DISCRETE, assert_close, drawn

MANY_STEPS = SBEEDConfig(
    hidden=(8,), batch_size=8, segment_length=4, k=4, trace=0.5, kappa=0.05, squash=False, pi_step_size=1e-3
)
# The theorem's own setting: one-step L_eta on replayed actions, plain gradients, no slow copy, nothing whitened.
PLAIN = SBEEDConfig(
    hidden=(8,),
    batch_size=8,
    squash=False,
    kappa=1.0,
    eta=0.3,
    optimizer="sgd",
    V_step_size=1.0,
    pi_step_size=1.0,
    dual_step_size=0.1,
)


def _batch(seed=0, length=4, spec=BOX, starts=8):
    return drawn(jax.random.key(seed), (starts, length), spec)


_update = jax.jit(agent.update, static_argnums=1)
_look = jax.jit(agent.look, static_argnums=1)


def _updated(config, updates=3, spec=BOX, start=None):
    state = start or agent.init(config, spec, jax.random.key(0))
    for i in range(updates):
        state, metrics = _update(config, spec, state, _batch(i, config.length, spec), jax.random.key(i))
    return state, metrics


# ------------------------------------------------------------------------------------------------- players' steps


@pytest.fixture(scope="module")
def plain():
    """A state whose dual is not zero, a batch of one-step segments, and the state after one update."""
    state, batch = agent.init(PLAIN, BOX, jax.random.key(0)), _batch(length=1)
    net = eqx.tree_at(lambda n: n.weights[-1], state.dual.net, jnp.full_like(state.dual.net.weights[-1], 0.3))
    state = state._replace(dual=replace(state.dual, net=net))
    after, _ = _update(PLAIN, BOX, state, batch, jax.random.key(1))
    return state, jax.tree.map(lambda x: x[:, 0], batch), after


def _seen_by_hand(state, after, batch):
    """delta, v and rho of the theorem, with the dual that V's and pi's steps used: the one after its own step."""
    v = agent.value(state.V, batch.obs)
    v_next = agent.value(state.V, batch.next_obs)
    log_pi = state.pi.log_prob(batch.obs, batch.action)
    delta = equations.delta_one_step(batch.reward, log_pi, v_next, batch.terminated, gamma=PLAIN.gamma, lam=PLAIN.lam)
    return delta, v, v + after.dual(batch.obs, batch.action)


def _per_sample(f, tree):
    """Gradients of a batch of outputs in flat parameters.   [B, D]"""
    flat, rebuild = ravel_pytree(tree)
    return jax.jit(jax.jacobian(lambda w: f(rebuild(w))))(flat)


def test_V_steps_along_the_theorem_s_gradient_with_nu_held(plain):
    state, batch, after = plain
    delta, v, rho = _seen_by_hand(state, after, batch)
    dv = _per_sample(lambda V: agent.value(V, batch.obs), state.V)
    dv_next = _per_sample(lambda V: agent.value(V, batch.next_obs), state.V) * ~batch.terminated[:, None]
    held = equations.V_gradient(delta, v, rho, dv, dv_next, gamma=PLAIN.gamma, eta=PLAIN.eta)
    # rho = V + nu moves with V: -eta (delta - rho)^2 adds 2 eta E[(delta - rho) dV(s)]
    moving = held + 2 * PLAIN.eta * equations.mean((delta - rho)[:, None] * dv)
    moved = ravel_pytree(state.V)[0] - ravel_pytree(after.V)[0]
    np.testing.assert_allclose(moved, moving, rtol=2e-4, atol=2e-5)


def test_pi_steps_along_the_theorem_s_gradient_without_its_lam(plain):
    state, batch, after = plain
    delta, v, rho = _seen_by_hand(state, after, batch)
    dlog_pi = _per_sample(lambda pi: pi.log_prob(batch.obs, batch.action), state.pi)
    theorem = equations.pi_gradient(delta, v, rho, dlog_pi, lam=PLAIN.lam, eta=PLAIN.eta)
    moved = ravel_pytree(state.pi)[0] - ravel_pytree(after.pi)[0]
    np.testing.assert_allclose(moved, theorem / (2 * PLAIN.lam), rtol=2e-4, atol=2e-5)


def test_nu_regresses_on_the_bellman_error(plain):
    state, batch, after = plain
    delta, v, _ = _seen_by_hand(state, after, batch)

    def loss(dual):
        return jnp.mean((delta - v - dual(batch.obs, batch.action)) ** 2)

    g = ravel_pytree(eqx.filter_grad(loss)(state.dual))[0]
    moved = ravel_pytree(state.dual)[0] - ravel_pytree(after.dual)[0]
    np.testing.assert_allclose(moved, 0.1 * g, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize(("policy", "spec"), [("rbf", BOX), ("mlp", BOX), ("mlp", DISCRETE)])
def test_a_KL_step_stays_inside_its_radius(policy, spec):
    config = replace(PLAIN, pi_prox="kl", kl_radius=0.01, policy=policy, whiten=True, pi_step_size=10.0)
    _, metrics = _updated(config, updates=1, spec=spec)
    assert 0.003 < metrics["kl"] < 0.02  # quadratic to second order: near the radius when the cap binds


# ------------------------------------------------------------------------------------------------- targets and ends


def _begun(config):
    """A learner that has met large rewards before: that another one is there changes no bound."""
    return agent.init(config, BOX, jax.random.key(0))._replace(largest_reward=jnp.float32(100))


def test_one_step_targets_do_not_look_further():
    config = replace(MANY_STEPS, k=1)
    state, batch = _begun(config), _batch()
    changed = batch._replace(reward=batch.reward.at[:, 1:].set(9.0), action=batch.action.at[:, 1:].set(2.0))
    one, _ = _update(config, BOX, state, batch, jax.random.key(1))
    two, _ = _update(config, BOX, state, changed, jax.random.key(1))
    assert_close(one, two, 0)


def test_a_target_stops_at_the_episode_s_end():
    config = MANY_STEPS
    state, batch = _begun(config), _batch()
    batch = batch._replace(last=batch.last.at[:, 1].set(True))
    changed = batch._replace(reward=batch.reward.at[:, 2:].set(9.0), action=batch.action.at[:, 2:].set(0.3))
    one, _ = _update(config, BOX, state, batch, jax.random.key(1))
    two, _ = _update(config, BOX, state, changed, jax.random.key(1))
    assert_close(one.dual, two.dual, 0)


# ------------------------------------------------------------------------------------------------- copies, lam, steps


def test_the_slow_copy_follows_slowly():
    start = agent.init(MANY_STEPS, BOX, jax.random.key(0))
    state, _ = _updated(MANY_STEPS, updates=1, start=start)
    fast, slow, before = (ravel_pytree(tree)[0] for tree in (state.V, state.V_slow, start.V))
    np.testing.assert_allclose(slow - before, 0.005 * (fast - before), rtol=0.05, atol=1e-7)


def test_twenty_steps_lower_the_dual_s_loss_further_than_one():
    def left(steps, tolerance=0.0):
        """The loss on the batch of the update, after it: that before one further step."""
        config = replace(PLAIN, optimizer="adam", dual_steps=steps, dual_tolerance=tolerance, dual_step_size=1e-3)
        state, batch = agent.init(config, BOX, jax.random.key(0)), _batch(length=1)
        seen = _look(config, BOX, state, batch)
        after, _ = agent.step_dual(config, state, seen)
        return duals.loss(after.dual, seen.inputs, seen.delta - seen.v, 0.0)

    one, twenty = left(1), left(20)
    assert twenty < 0.99 * one
    # A step that lowers the loss by less than the share asked for is the last but one.
    assert twenty < left(20, tolerance=0.5) < one


def test_credit_goes_to_the_first_action_of_a_target_or_to_all():
    batch = _batch()
    batch = batch._replace(last=jnp.zeros_like(batch.last), terminated=jnp.zeros_like(batch.terminated))
    start = agent.init(replace(MANY_STEPS, lam=1e-30), BOX, jax.random.key(0))

    def moved(credit, batch):
        """pi's step, by the actions of the batch alone: lam is next to nothing, so targets do not see them."""
        config = replace(MANY_STEPS, pi_credit=credit, lam=1e-30, dual="none", eta=0.0, optimizer="sgd")
        seen = _look(config, BOX, start, batch)
        after, _ = agent.step_pi(config, start, batch, seen, jax.random.key(1))
        return ravel_pytree(after.pi)[0] - ravel_pytree(start.pi)[0]

    later = batch._replace(action=batch.action.at[:, 1:].add(1.0))
    np.testing.assert_array_equal(moved("first", later), moved("first", batch))
    assert jnp.linalg.norm(moved("all", later) - moved("all", batch)) > 0.1 * jnp.linalg.norm(moved("all", batch))

    # Of all actions: (gamma trace)^i of the weight of the target for the i-th, added up by hand.
    config = replace(MANY_STEPS, lam=1e-30)
    seen = _look(config, BOX, start, batch)
    weight = (seen.delta - seen.v)[:, 0]
    shares = (config.gamma * config.trace) ** jnp.arange(4)

    def score(pi):
        return jnp.mean(weight * (pi.log_prob(batch.obs, batch.action) @ shares))

    by_hand = ravel_pytree(eqx.filter_grad(score)(start.pi))[0]
    np.testing.assert_allclose(moved("all", batch), config.pi_step_size * by_hand, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("rounds", "stands_still"), [(2, True), (3, False)])
def test_the_scale_of_observations_stands_still_after_its_rounds(rounds, stands_still):
    config = replace(PLAIN, normalize_observations=True, scale_rounds=rounds, steps_per_iteration=16, warmup=16)
    state = agent.init(config, BOX, jax.random.key(0))._replace(iteration=jnp.int32(2))
    after, _ = jax.jit(lambda s, r, k: agent.iterate(replace(config, updates_per_iteration=1), BOX, s, r, k))(
        state, _replay(BOX), jax.random.key(1)
    )
    same = [np.array_equal(x, y) for x, y in zip(*(jax.tree.leaves(s.scales.observations) for s in (state, after)))]
    assert all(same) if stands_still else not any(same)


def test_lam_on_raw_rewards_is_that_of_rewards_that_nothing_divides():
    state, batch = agent.init(PLAIN, BOX, jax.random.key(0)), _batch(length=1)
    returns = state.scales.returns.update(10 * batch.reward[:, 0], batch.last[:, 0], PLAIN.gamma)
    state = state._replace(scales=state.scales._replace(returns=returns))
    raw = replace(PLAIN, normalize_rewards=True, lam_counts="raw")
    scaled = replace(raw, lam_counts="scaled")
    divided = batch._replace(reward=batch.reward / returns.scale)
    assert returns.scale > 2
    whole, part = (_look(config, BOX, state, b) for config, b in ((PLAIN, batch), (raw, divided)))
    # The part of a target that is not the bootstrap is divided by the scale.
    own = lambda seen: seen.delta - PLAIN.gamma * jnp.where(batch.terminated, 0, seen.v_next)
    np.testing.assert_allclose(own(part) * returns.scale, own(whole), rtol=1e-4, atol=1e-4)
    assert _look(scaled, BOX, state, divided).lam == whole.lam


def test_steps_decay_with_the_iterations():
    state = agent.init(PLAIN, BOX, jax.random.key(0))
    late = state._replace(iteration=jnp.int32(30))
    config = replace(PLAIN, step_decay=0.1)
    one, two = (_update(config, BOX, s, _batch(length=1), jax.random.key(1))[0] for s in (state, late))
    start, first, second = (ravel_pytree(s.V)[0] for s in (state, one, two))
    # 1 / (1 + .1 * 30) = 1/4; nu's own step is shorter too, so V's direction may differ a little.
    np.testing.assert_allclose(jnp.linalg.norm(second - start) / jnp.linalg.norm(first - start), 0.25, rtol=0.05)


# ------------------------------------------------------------------------------------------------- a whole round


def _replay(spec, size=64):
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), _batch(3, 4, spec, starts=size // 4))
    return ring.insert(ring.empty(spec, size), flat)


SMALL = dict(hidden=(8,), batch_size=16, warmup=16, replay_capacity=64, steps_per_iteration=8, updates_per_iteration=2)
PAPER = dict(k=4, segment_length=4, pi_batch_size=8, pi_newest=16, features=5, **SMALL)


@pytest.mark.parametrize("spec", [BOX, DISCRETE], ids=lambda spec: spec.action_kind)
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("paper", PAPER),
        ("paper", {**PAPER, "dual": "linear"}),
        ("paper", {**PAPER, "dual_sees": "all", "dual_steps": 3, "policy": "mlp", "squash": False}),
    ],
    ids=["paper", "exact dual", "inner steps"],
)
def test_every_form_runs_a_round_and_changes_every_player(spec, name, fields):
    config = replace(agent.V_PI_FORM.preset(name, spec), **fields)
    agent.check(config, spec)
    replay = _replay(spec)

    @jax.jit
    def round(state, key):
        return agent.iterate(config, spec, agent.prepare(config, spec, state, replay, key), replay, key)

    before = agent.init(config, spec, jax.random.key(0))
    after, metrics = round(before, jax.random.key(1))
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    for player in ("pi", "V", "dual"):
        old, new = (ravel_pytree(getattr(s, player))[0] for s in (before, after))
        assert not np.array_equal(old, new), player
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert [x.dtype for x in jax.tree.leaves(before)] == [x.dtype for x in jax.tree.leaves(after)]


def test_a_population_is_its_members():
    fields = [{"trace": 0.0}, {"trace": 0.9, "eta": 0.5}, {"kappa": 1.0, "lam": 0.05}]
    each = [jax.tree.map(np.float32, replace(MANY_STEPS, **one)) for one in fields]
    configs = jax.tree.map(lambda *x: jnp.stack(x), *each)
    states = jax.vmap(lambda c: agent.init(c, BOX, jax.random.key(0)))(configs)
    step = jax.jit(jax.vmap(lambda c, s, b, k: agent.update(c, BOX, s, b, k), in_axes=(0, 0, None, None)))
    for i in range(3):
        states, _ = step(configs, states, _batch(i), jax.random.key(i))
    for i, config in enumerate(each):
        alone, _ = _updated(config)
        # Batched matrix products sum in another order; three Adam steps of 1e-3 keep the difference below this.
        assert_close(jax.tree.map(lambda x, i=i: x[i], states), alone, 1e-4)


# ------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"lam": -0.1}, r"lam: must lie in \(0, inf\), got -0.1"),
        ({"eta": 1.5}, r"eta: must lie in \[0, 1\], got 1.5"),
        ({"k": 10, "replay_capacity": 8}, "k: must not exceed the replay's 8, got 10"),
        ({"k": 10, "segment_length": 5}, "k: must not exceed segment_length, 5, got 10"),
        ({"k": 10, "warmup": 5}, "warmup: must cover a segment of 10, got 5"),
        ({"adapt_lam": True}, "adapt_lam: must be off unless prior is lagged, got True"),
        ({"policy": "table"}, "policy: must not be table for a box of actions, got table"),
    ],
)
def test_a_config_that_cannot_run_is_refused_in_one_line(fields, complaint):
    with pytest.raises(ValueError, match=f"^{complaint}$"):
        agent.check(replace(SBEEDConfig(), **fields), BOX)


def test_without_a_dual_it_is_path_consistency_learning():
    with_dual = replace(PLAIN, eta=0.0, k=4, segment_length=4, trace=0.5)
    (one, _), (two, _) = (_updated(config) for config in (with_dual, replace(with_dual, dual="none")))
    assert two.dual is None
    assert_close((one.pi, one.V), (two.pi, two.V), 0)


def test_a_lagged_prior_takes_its_log_density_off():
    config = replace(PLAIN, prior="lagged", prior_rate=0.0)
    state, batch = agent.init(config, BOX, jax.random.key(0)), _batch(length=1)
    other = agent.init(config, BOX, jax.random.key(1)).pi
    relative = agent.look(config, BOX, state._replace(prior=other), batch)
    plain = agent.look(PLAIN, BOX, state._replace(prior=None), batch)
    np.testing.assert_allclose(plain.log_pi - relative.log_pi, other.log_prob(batch.obs, batch.action), atol=1e-5)
    # To itself there is no distance: lam then counts for nothing.
    np.testing.assert_allclose(agent.look(config, BOX, state, batch).log_pi, 0, atol=1e-6)


@pytest.mark.parametrize(("shift", "rises"), [(0.0, False), (1.0, True)])
def test_lam_holds_the_policy_near_its_prior(shift, rises):
    config = replace(PLAIN, prior="lagged", adapt_lam=True, kl_target=0.01, policy="rbf")
    state = agent.init(config, BOX, jax.random.key(0))
    far = eqx.tree_at(lambda pi: pi.weights, state.pi, state.pi.weights + shift)
    after, metrics = _update(config, BOX, state._replace(prior=far), _batch(length=1), jax.random.key(0))
    assert bool(after.log_lam > state.log_lam) is rises
    assert bool(metrics["prior_kl"] > config.kl_target) is rises
