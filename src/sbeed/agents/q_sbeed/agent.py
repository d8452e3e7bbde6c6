"""SBEED in Q-coordinates: one update of Q, its dual, the policy and lam on a batch of paths.

One pass over (s, a) and (s', a') evaluates Q and nu; from there on there are arrays, and `equations` has the maths.
"""

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


class Next(NamedTuple):
    """What stands for pi at the states reached: drawn before Q is differentiated, for by the envelope it is held."""

    action: Array | None  # a' as the environment gets it [B, k, A]; None where actions are discrete
    relative: Array | None  # log pi(a'|s') less the prior's, or if discrete the prior's log-probabilities, if any
    bound: Scalar  # on |V|


class Errors(NamedTuple):
    """The arrays of a batch, for each twin."""

    error: Array  # delta - Q(s, a) of every start of every path: [twins, B k]
    q: Array  # Q(s, a): [twins, B k]
    v_next: Array  # V(s'), of the smaller twin: [B, k]
    seen: duals.Seen
    statistics: Statistics


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: QConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """`updates_per_iteration` updates in one program; metrics are means."""
    state = state._replace(scales=scales.observe(config, state.scales, replay))

    def draw(k: Key) -> Transition:
        paths = sample(replay, k, config.batch_size // config.k, config.k)
        batch = scales.scaled(config, state.scales, paths)
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

    k_updates, k_look = jax.random.split(key)
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

    def loss(q: ActionValues) -> tuple[Array, Errors]:
        found = errors(config, state, q, batch, after)
        held = jax.lax.stop_gradient(found)
        rho = held.q + duals.nu(state.dual, held.seen)
        return objective(config, found, rho), held

    g, found = eqx.filter_grad(loss, has_aux=True)(state.Q)
    q, opt = stepped(_adam(config, config.Q_step_size), state.Q, state.opt["Q"], g)
    q = q.map(lambda net, met: net.taking_in(met), found.statistics)
    dual, dual_opt = duals.fitted(config, state.dual, state.opt["dual"], found.seen, found.error)
    state = state._replace(
        Q=q,
        Q_slow=None if state.Q_slow is None else follow(state.Q_slow, q, config.slow_rate),
        dual=dual,
        opt={**state.opt, "Q": opt, "dual": dual_opt},
    )
    td2 = jnp.mean(found.error**2)
    left = jnp.mean((found.error - duals.nu(dual, found.seen)) ** 2)
    metrics = {
        "V": jnp.mean(found.v_next),
        "V_largest": jnp.max(jnp.abs(found.v_next)),
        "reward_largest": largest,
        "td2": td2,
        "explained": 1 - left / jnp.maximum(td2, 1e-12),
    }
    return state, metrics


def draw_next(config: QConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key) -> Next:
    """pi's actions at the states reached, and what V counts of them besides Q."""
    bound = value_bound(
        state.largest_reward, most_entropy(config, spec), gamma=config.gamma, lam=jnp.exp(state.log_lam)
    )
    if state.pi is None:
        return Next(None, None if state.prior is None else _log_probs(state.prior, batch.next_obs), bound)
    raw, log_pi = state.pi.sample(batch.next_obs, key)
    if state.prior is not None:
        log_pi -= state.prior.log_prob(batch.next_obs, raw)
    return Next(state.pi.squash(raw), log_pi, bound)


def errors(config: QConfig, state: Learner, q: ActionValues, batch: Transition, after: Next) -> Errors:
    """Evaluate Q once at every state of the paths. Networks end here.   batch: [B, k, ...]"""
    action = None if after.action is None else _squashed(state, batch.action)
    now = _rows(q.inputs(batch.obs, action))
    then = _rows(q.inputs(batch.next_obs, after.action))
    q_now, q_next, phi, statistics = q.joint(now, then)
    shape = (q_now.shape[0], *batch.reward.shape)
    index = batch.action.astype(int) if after.action is None else jnp.zeros_like(batch.reward, int)
    q_now = jnp.take_along_axis(q_now.reshape(*shape, -1), index[None, ..., None], axis=-1)[..., 0]
    v_next = _value(state, after, q_next.reshape(*shape, -1))
    if state.Q_slow is not None:  # its value, with the gradient of Q's own
        of_slow = state.Q_slow.joint(now, then)[1]
        slow = _value(state, after, of_slow.reshape(*shape, -1))
        v_next = v_next + jax.lax.stop_gradient(slow - v_next)
    v_next = jnp.clip(v_next, -after.bound, after.bound)
    td = equations.td_error(batch.reward, v_next, q_now, batch.terminated, gamma=config.gamma)
    error = equations.path_errors(td, batch.last, gamma=config.gamma, trace=config.trace)
    seen = duals.Seen(phi, now, index.ravel() if after.action is None else None)
    every_start = lambda x: x.reshape(len(x), -1)
    return Errors(every_start(error), every_start(q_now), v_next, seen, statistics)


def objective(config: QConfig, found: Errors, rho: Array) -> Array:
    """L_eta, summed over twins: each steps as if it were alone, but for the smaller of the two in V(s')."""
    delta = equations.with_backward_share(found.error + found.q, config.kappa)
    return jnp.sum(jax.vmap(lambda delta, q, rho: L_eta(delta, q, rho, eta=config.eta))(delta, found.q, rho))


def last_step(
    config: QConfig, spec: EnvSpec, before: Learner, after: Learner, batch: Transition, key: Key
) -> tuple[Array, Array]:
    """L_eta per twin on a batch that no step was taken on, after the round's last step, and whether that lowered it.

    rho is that of before the step: what it is a step on.
    """
    drawn = draw_next(config, spec, before, batch, key)
    old, new = (errors(config, before, state.Q, batch, drawn) for state in (before, after))
    rho = old.q + duals.nu(before.dual, old.seen)
    L_old, L_new = objective(config, old, rho), objective(config, new, rho)
    return L_new / config.twins, (L_new < L_old).astype(jnp.float32)


# ------------------------------------------------------------------------------------------------- pi and lam


def update_pi(config: QConfig, spec: EnvSpec, state: Learner, obs: Array, key: Key) -> tuple[Learner, Metrics]:
    """pi's step towards pi_Q, KL(pi || pi_Q) by way of the action, and lam's towards the entropy asked for.   [B, n]

    Where actions are discrete pi is pi_Q already.
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
    """A young policy's average forgets its first tries: it is over a tenth of the steps so far at the most."""
    steps = state.iteration * (config.updates_per_iteration // config.pi_every)
    return jnp.maximum(config.average_rate, 10 / (10 + steps))


# ------------------------------------------------------------------------------------------------- small parts


def _value(state: Learner, after: Next, q: Array) -> Array:
    """V(s') of the smaller twin: exact where actions are discrete, else at the action drawn.   [twins, B, k, A or 1]"""
    least, lam = q.min(0), jnp.exp(state.log_lam)
    if after.action is None:
        return equations.V_of(least, lam=lam, prior=after.relative)
    assert after.relative is not None
    return equations.soft_value(least[..., 0], after.relative, lam=lam)


def _squashed(state: Learner, action: Array) -> Array:
    assert state.pi is not None
    return state.pi.squash(action)


def _log_probs(prior: Policy, obs: Array) -> Array:
    return prior.distribution(obs).log_probs


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def _adam(config: QConfig, step_size: Scalar) -> optax.GradientTransformation:
    return optax.adam(step_size, b1=config.momentum)


Q_FORM: Any = Agent("q_form", PRESETS, check, init, prepare, iterate, actor, deployed)
