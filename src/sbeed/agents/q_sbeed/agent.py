"""SBEED in Q-coordinates: one update of Q, its dual, the policy and lam on a batch of paths.

One pass over (s, a) and (s', a') evaluates Q and nu; from there on there are arrays, and `equations` has the maths.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent
from sbeed.agents.q_sbeed import dual as duals
from sbeed.agents.q_sbeed import equations
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.q_sbeed.learner import (
    Learner,
    actor,
    check,
    deployed,
    entropy_target,
    init,
    most_entropy,
    policy,
    prepare,
    scales_in_use,
)
from sbeed.agents.q_sbeed.presets import PRESETS
from sbeed.agents.sbeed.equations import L_eta, value_bound
from sbeed.agents.shared import running_scales as scales
from sbeed.agents.shared.steps import follow, stepped
from sbeed.data.replay import Replay, sample
from sbeed.models.policies import Policy
from sbeed.models.q_net import ActionValues, Statistics
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

Metrics = dict[str, Array]
PRODUCTS_RATE = 0.05  # of the running products that give the angle between a step and the gradient, per round


class Next(NamedTuple):
    """Samples of pi at the states reached, drawn before Q is differentiated: the envelope theorem holds them fixed."""

    action: Array | None  # a' as the environment gets it [B, k, A]; None where actions are discrete
    relative: Array | None  # log pi(a'|s') less the prior's, or if discrete the prior's log-probabilities, if any
    bound: Scalar  # on |V|


class Values(NamedTuple):
    """Q at the states and actions of the paths, and V at the states reached: the outputs of Q that L_eta uses."""

    q: Array  # Q(s, a): [twins, B, k]
    v_next: Array  # V(s'), of the smaller twin: [B, k]


class Looked(NamedTuple):
    """Side results of a pass of Q: its dual's inputs and the statistics of its batch norm."""

    seen: duals.Seen
    statistics: Statistics


# From cotangents of `Values`, either of which may be absent, to a gradient of Q's parameters.
Pull = Callable[[Array | None, Array | None], ActionValues]


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: QConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """`updates_per_iteration` updates in one program; metrics are means."""
    state = state._replace(scales=scales.observe(config, state.scales, replay))

    def draw(k: Key) -> Transition:
        paths = sample(replay, k, config.batch_size // config.k, config.k)
        batch = scales.scaled(config, scales_in_use(config, state), paths)
        return batch._replace(reward=batch.reward * config.return_scale) if config.normalize_rewards else batch

    def of_Q(carry: tuple[Learner, Learner], k: Key) -> tuple[tuple[Learner, Learner], tuple[Metrics, Array]]:
        before, _ = carry
        k_batch, k_update = jax.random.split(k)
        batch = draw(k_batch)
        after, metrics = update_Q(config, spec, before, batch, k_update)
        return (after, before), (metrics, batch.obs)

    def of_both(carry: tuple[Learner, Learner], k: Key) -> tuple[tuple[Learner, Learner], Metrics]:
        k_Q, k_pi = jax.random.split(k)
        if config.pi_every == 1:
            (state, before), (metrics, obs) = of_Q(carry, k_Q)
        else:
            (state, before), found = jax.lax.scan(of_Q, carry, jax.random.split(k_Q, config.pi_every))
            metrics, obs = jax.tree.map(jnp.mean, found[0]), found[1][-1]
        state, of_pi = update_pi(config, spec, state, obs, k_pi)
        return (state, before), metrics | of_pi

    k_updates, k_look, k_angle = jax.random.split(key, 3)
    if config.backward == "descent":
        state = state._replace(products=measured_products(config, spec, state, draw(k_angle), k_angle))
    groups = jax.random.split(k_updates, config.updates_per_iteration // config.pi_every)
    (state, before), metrics = jax.lax.scan(of_both, (state, state), groups)
    objective, lowered = last_step(config, spec, before, state, draw(k_look), k_look)
    state = state._replace(lowered=state.lowered + 0.02 * (lowered - state.lowered), iteration=state.iteration + 1)
    metrics = jax.tree.map(jnp.mean, metrics)
    return state, metrics | {"L_eta": objective, "lowered": state.lowered}


# ------------------------------------------------------------------------------------------------- Q and its dual


def update_Q(config: QConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key) -> tuple[Learner, Metrics]:
    """One step of Q down the gradient of L_eta, with rho = Q + nu held, and one of nu towards delta - Q.

    batch: paths [B, k, ...]
    """
    largest = jnp.maximum(state.largest_reward, jnp.max(jnp.abs(batch.reward)))
    state = state._replace(largest_reward=largest)
    after = draw_next(config, spec, state, batch, key)

    values, looked, pull = linearized(config, state, batch, after)
    error = errors(config, batch, values)
    share = backward_share(config, state)
    g = gradient(config, batch, values, duals.nu(state.dual, looked.seen), pull, share)
    q, opt = stepped(_adam(config, config.Q_step_size), state.Q, state.opt["Q"], g)
    q = q.map(lambda net, met: net.taking_in(met), looked.statistics)
    dual, dual_opt = duals.fitted(config, state.dual, state.opt["dual"], looked.seen, error)
    state = state._replace(
        Q=q,
        Q_slow=None if state.Q_slow is None else follow(state.Q_slow, q, config.slow_rate),
        dual=dual,
        opt={**state.opt, "Q": opt, "dual": dual_opt},
    )
    td2 = jnp.mean(error**2)
    left = jnp.mean((error - duals.nu(dual, looked.seen)) ** 2)
    metrics = {
        "V": jnp.mean(values.v_next),
        "V_largest": jnp.max(jnp.abs(values.v_next)),
        "reward_largest": largest,
        "backward": share,
        "td2": td2,
        "explained": 1 - left / jnp.maximum(td2, 1e-12),
    }
    return state, metrics


def draw_next(config: QConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key) -> Next:
    """Draw pi's actions at the states reached, with the terms of V that do not depend on Q."""
    bound = value_bound(
        state.largest_reward, most_entropy(config, spec), gamma=config.gamma, lam=jnp.exp(state.log_lam)
    )
    if state.pi is None:
        return Next(None, None if state.prior is None else _log_probs(state.prior, batch.next_obs), bound)
    raw, log_pi = state.pi.sample(batch.next_obs, key)
    if state.prior is not None:
        log_pi -= state.prior.log_prob(batch.next_obs, raw)
    return Next(state.pi.squash(raw), log_pi, bound)


def linearized(config: QConfig, state: Learner, batch: Transition, after: Next) -> tuple[Values, Looked, Pull]:
    """Evaluate Q once at every state of the paths. Networks end here.   batch: [B, k, ...]"""
    now, then, index = _inputs(state, batch, after)
    seen = lambda phi: duals.Seen(phi, now, index.ravel() if after.action is None else None)
    if not state.Q.joins_batches:

        def here(q: ActionValues) -> tuple[Array, Array]:
            out, phi = q.with_features(now)
            return _taken(out, index), phi

        there = lambda q: _bootstrapped(state, after, index.shape, q.with_features(then)[0])
        of_q, pull_q, phi = eqx.filter_vjp(here, state.Q, has_aux=True)
        v_next, pull_v = eqx.filter_vjp(there, state.Q)

        def pull(q: Array | None, v: Array | None) -> ActionValues:
            parts = [f(x)[0] for f, x in ((pull_q, q), (pull_v, v)) if x is not None]
            return jax.tree.map(lambda *g: sum(g), *parts)

        if state.Q_slow is not None:  # its value, with the gradient of Q's own
            v_next = there(state.Q_slow)
        return Values(of_q, v_next), Looked(seen(phi), Statistics([], [])), pull

    def both(q: ActionValues) -> tuple[Values, Looked]:
        out, out_next, phi, statistics = q.joint(now, then)
        v_next = _bootstrapped(state, after, index.shape, out_next)
        return Values(_taken(out, index), v_next), Looked(seen(phi), statistics)

    values, pull_both, looked = eqx.filter_vjp(both, state.Q, has_aux=True)
    absent = jax.tree.map(jnp.zeros_like, values)
    if state.Q_slow is not None:
        values = values._replace(v_next=both(state.Q_slow)[0].v_next)
    return (
        values,
        looked,
        lambda q, v: pull_both(Values(absent.q if q is None else q, absent.v_next if v is None else v))[0],
    )


def errors(config: QConfig, batch: Transition, values: Values) -> Array:
    """delta - Q(s, a) of every start of every path, for each twin.   [twins, B k]"""
    td = equations.td_error(batch.reward, values.v_next, values.q, batch.terminated, gamma=config.gamma)
    error = equations.path_errors(td, batch.last, gamma=config.gamma, trace=config.trace)
    return _every_start(error)


def objective(config: QConfig, batch: Transition, values: Values, rho: Array) -> Array:
    """L_eta, summed over twins: each steps as if it were alone, but for the smaller of the two in V(s')."""
    q = _every_start(values.q)
    delta = errors(config, batch, values) + q
    return jnp.sum(jax.vmap(lambda delta, q, rho: L_eta(delta, q, rho, eta=config.eta))(delta, q, rho))


class Halves(NamedTuple):
    """Cotangents of `Values`: of the forward half of L_eta's gradient, through Q(s, a) of a target's own start, and of
    the backward half, through all that delta is made of."""

    forward: Array  # of Values.q
    backward: Values


def halves(config: QConfig, batch: Transition, values: Values, nu: Array) -> Halves:
    """The halves of the gradient of L_eta with rho = Q + nu held.   nu: [twins, B k]"""
    rho = _every_start(values.q) + nu
    whole = jax.grad(lambda values: objective(config, batch, values, rho))(values)
    forward = _of_starts(errors(config, batch, values), values)
    return Halves(forward, Values(whole.q - forward, whole.v_next))


def gradient(config: QConfig, batch: Transition, values: Values, nu: Array, pull: Pull, share: Scalar) -> ActionValues:
    """The direction f + c b of Q's step: the forward half and a share of the backward one.   nu: [twins, B k]"""
    forward, backward = halves(config, batch, values, nu)
    return pull(forward + share * backward.q, share * backward.v_next)


def backward_share(config: QConfig, state: Learner) -> Array:
    """The share of the backward half in a step: kappa, or more if the step would not descend L_eta otherwise."""
    kappa = jnp.asarray(config.kappa, jnp.float32)
    if config.backward == "kappa":
        return kappa
    return jnp.maximum(kappa, equations.least_share(*state.products, cosine=config.descent))


def measured_products(config: QConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key) -> Array:
    """The running <b, b>, <b, g>, <g, g>, moved towards those of a batch.   [3]

    f stands in g with the dual's estimate of its error in the place of the sampled one, whose noise would hide the
    angle. The angle changes slowly: one batch a round is enough, and updates need no more than one pass backwards.
    """
    values, looked, pull = linearized(config, state, batch, draw_next(config, spec, state, batch, key))
    nu = duals.nu(state.dual, looked.seen)
    expected = (1 - config.eta) * errors(config, batch, values) + config.eta * nu
    _, backward = halves(config, batch, values, nu)
    # One step's target has no other Q(s, a) in it than its own: `backward.q` is zero then.
    b = pull(backward.q if config.k > 1 else None, backward.v_next)
    g = jax.tree.map(jnp.add, pull(_of_starts(expected, values), None), b)
    found = jnp.stack([_dot(b, b), _dot(b, g), _dot(g, g)])
    return state.products + PRODUCTS_RATE * (found - state.products)


def _of_starts(error: Array, values: Values) -> Array:
    """The cotangent of Values.q through which the mean of the errors' squares falls.   error: [twins, B k]"""
    return (-2 / error.shape[1] * error).reshape(values.q.shape)


def last_step(
    config: QConfig, spec: EnvSpec, before: Learner, after: Learner, batch: Transition, key: Key
) -> tuple[Array, Array]:
    """L_eta per twin on a fresh batch after the round's last step, and whether that step lowered it.

    rho is that of before the step, on which the step was taken.
    """
    drawn = draw_next(config, spec, before, batch, key)
    old, looked, _ = linearized(config, before, batch, drawn)
    new = linearized(config, before._replace(Q=after.Q, Q_slow=after.Q_slow), batch, drawn)[0]
    rho = _every_start(old.q) + duals.nu(before.dual, looked.seen)
    L_old, L_new = objective(config, batch, old, rho), objective(config, batch, new, rho)
    return L_new / config.twins, (L_new < L_old).astype(jnp.float32)


# ------------------------------------------------------------------------------------------------- pi and lam


def update_pi(config: QConfig, spec: EnvSpec, state: Learner, obs: Array, key: Key) -> tuple[Learner, Metrics]:
    """Step pi towards pi_Q, down KL(pi || pi_Q) through the action, and lam towards the entropy target.   [B, n]

    With discrete actions pi is pi_Q already.
    """
    lam = jnp.exp(state.log_lam)
    if state.pi is None:
        found = policy(state).distribution(obs).log_probs
        entropy = -jnp.mean(jnp.sum(jnp.exp(found) * found, axis=-1))
        pi, opt = None, state.opt["pi"]
    else:

        def loss(pi: Policy) -> tuple[Array, Array]:
            raw, log_pi = pi.sample(obs, key)
            prior = None if state.prior is None else state.prior.log_prob(obs, raw)
            q = state.Q(obs, pi.squash(raw)).min(0)
            return -jnp.mean(equations.soft_value(q, log_pi, lam=lam, prior=prior)), -jnp.mean(log_pi)

        g, entropy = eqx.filter_grad(loss, has_aux=True)(state.pi)
        pi, opt = stepped(_adam(config, config.pi_step_size), state.pi, state.opt["pi"], g)
    metrics = {"entropy": entropy, "lam_now": lam}
    excess = entropy - entropy_target(config, spec)
    if state.prior is not None:
        metrics["prior_kl"] = jnp.mean(policy(state).kl(state.prior, obs))
        excess = config.kl_target - metrics["prior_kl"]
    log_lam, lam_opt = state.log_lam, state.opt["log_lam"]
    if config.adapt_lam:
        log_lam, lam_opt = stepped(optax.adam(config.lam_step_size), log_lam, lam_opt, excess)
    state = state._replace(pi=pi, log_lam=log_lam, opt={**state.opt, "pi": opt, "log_lam": lam_opt})
    return state._replace(averaged=follow(state.averaged, policy(state), _average_rate(config, state))), metrics


def _average_rate(config: QConfig, state: Learner) -> Scalar:
    """Polyak rate of the average, larger at first: the average spans at most a tenth of the steps so far."""
    steps = state.iteration * (config.updates_per_iteration // config.pi_every)
    return jnp.maximum(config.average_rate, 10 / (10 + steps))


# ------------------------------------------------------------------------------------------------- small parts


def _inputs(state: Learner, batch: Transition, after: Next) -> tuple[Array, Array, Array]:
    """Rows of (s, a), rows of (s', a'), and which output is Q(s, a): 0, or the action where it is discrete.   [B, k]"""
    if after.action is None:
        return _rows(batch.obs), _rows(batch.next_obs), batch.action.astype(int)
    assert state.pi is not None
    now = state.Q.inputs(batch.obs, state.pi.squash(batch.action))
    return _rows(now), _rows(state.Q.inputs(batch.next_obs, after.action)), jnp.zeros_like(batch.reward, int)


def _taken(out: Array, index: Array) -> Array:
    """Q(s, a) of the action taken.   [twins, B k, A or 1], [B, k] -> [twins, B, k]"""
    out = out.reshape(len(out), *index.shape, -1)
    return jnp.take_along_axis(out, index[None, ..., None], axis=-1)[..., 0]


def _bootstrapped(state: Learner, after: Next, shape: tuple[int, ...], out: Array) -> Array:
    """V(s') of the smaller twin, bounded: exact where actions are discrete, else at the action drawn.

    [twins, B k, A or 1] -> [B, k]
    """
    least, lam = out.min(0).reshape(*shape, -1), jnp.exp(state.log_lam)
    if after.action is None:
        v = equations.V_of(least, lam=lam, prior=after.relative)
    else:
        assert after.relative is not None
        v = equations.soft_value(least[..., 0], after.relative, lam=lam)
    return jnp.clip(v, -after.bound, after.bound)


def _every_start(x: Array) -> Array:
    """[twins, B, k] -> [twins, B k]"""
    return x.reshape(len(x), -1)


def _dot(x: ActionValues, y: ActionValues) -> Array:
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.vdot, x, y))


def _log_probs(prior: Policy, obs: Array) -> Array:
    return prior.distribution(obs).log_probs


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _adam(config: QConfig, step_size: Scalar) -> optax.GradientTransformation:
    return optax.adam(step_size, b1=config.momentum)


Q_FORM: Any = Agent("q_form", PRESETS, check, init, prepare, iterate, actor, deployed)
