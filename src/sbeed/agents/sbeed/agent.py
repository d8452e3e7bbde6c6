"""SBEED: V and pi in the primal, rho in the dual, one update of each on a batch of segments.

The networks are evaluated once per state of a segment; from there on there are arrays, and `equations` has the maths.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent
from sbeed.agents.sbeed import dual as duals
from sbeed.agents.sbeed import equations
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.sbeed.learner import Learner, actor, check, init, optimizer, prepare
from sbeed.agents.sbeed.presets import PCL_PRESETS, PRESETS
from sbeed.agents.shared import running_scales
from sbeed.agents.shared.policies import encoded
from sbeed.agents.shared.steps import follow, kl_step, stepped
from sbeed.data.replay import Replay, sample
from sbeed.models.nets import MLP
from sbeed.models.policies import Finite, Policy
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

Metrics = dict[str, Array]


class Seen(NamedTuple):
    """The arrays of a batch after the networks have been evaluated, once per state."""

    lam: Array
    largest_reward: Array  # so far, in absolute value
    log_pi: Array  # of the replayed actions: [B, L]
    v: Array  # V at each start: [B, starts]
    v_next: Array  # of the states reached, as the bootstrap takes them: [B, L]
    pull: Callable[[tuple[Array, Array]], tuple[MLP]]  # gradients in these two to one in V's parameters
    delta: Array  # each start's target: [B, starts]
    inputs: tuple[Array, Array, Array | None]  # what rho sees of each start: its state, action and perhaps later ones


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: SBEEDConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """Make `updates_per_iteration` updates in one program, then the policy's own, if any; metrics are means."""
    state = _rescaled(config, state, replay)
    together = config.pi_updates_per_iteration is None

    def one(state: Learner, k: Key) -> tuple[Learner, Metrics]:
        k_batch, k_update = jax.random.split(k)
        batch = _batch(config, state, replay, k_batch, config.batch_size, config.newest)
        return update(config, spec, state, batch, k_update, with_pi=together)

    k_updates, k_pi = jax.random.split(key)
    state, metrics = jax.lax.scan(one, state, jax.random.split(k_updates, config.updates_per_iteration))
    if config.pi_updates_per_iteration is not None:
        among = config.pi_newest or config.newest

        def one_pi(state: Learner, k: Key) -> tuple[Learner, Metrics]:
            k_batch, k_update = jax.random.split(k)
            batch = _batch(config, state, replay, k_batch, config.pi_batch_size, among)
            return update_pi(config, spec, state, batch, k_update)

        state, of_pi = jax.lax.scan(one_pi, state, jax.random.split(k_pi, config.pi_updates_per_iteration))
        metrics = {**metrics, **of_pi}
    return state._replace(iteration=state.iteration + 1), jax.tree.map(jnp.mean, metrics)


def _rescaled(config: SBEEDConfig, state: Learner, replay: Replay) -> Learner:
    """Update the scales by the newest round; the scale of observations only in the first `scale_rounds` rounds.

    A new scale of observations changes the policy outside the cap on pi's steps, and a sharp pi most.
    """
    moved = running_scales.observe(config, state.scales, replay)
    young = state.iteration < config.scale_rounds
    observations = jax.tree.map(partial(jnp.where, young), moved.observations, state.scales.observations)
    return state._replace(scales=moved._replace(observations=observations))


def _batch(config: SBEEDConfig, state: Learner, replay: Replay, key: Key, starts: int, among: int | None) -> Transition:
    """Segments with `starts` starts between them, on the learner's own scale."""
    count = max(1, starts // config.length) if config.all_starts else starts
    return running_scales.scaled(config, state.scales, sample(replay, key, count, config.length, among))


# ------------------------------------------------------------------------------------------------- one update


def update(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key, *, with_pi: bool = True
) -> tuple[Learner, Metrics]:
    """One step of each player on a batch of segments [B, L, ...]: the dual first, then pi and V against it."""
    seen = look(config, spec, state, batch)
    state, metrics = step_dual(config, state._replace(largest_reward=seen.largest_reward), seen)
    if with_pi:
        state, of_pi = step_pi(config, state, batch, seen, key)
        metrics |= of_pi
    state, of_V = step_V(config, state, batch, seen)
    return state, metrics | of_V


def update_pi(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key
) -> tuple[Learner, Metrics]:
    """One step of the policy alone."""
    return step_pi(config, state, batch, look(config, spec, state, batch), key)


def look(config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition) -> Seen:
    """Evaluate the networks once per state of the batch. Networks end here."""
    lam = _lam(config, state)
    largest_reward = jnp.maximum(state.largest_reward, jnp.max(jnp.abs(batch.reward)))

    def values(V: MLP) -> tuple[Array, Array]:
        return value(V, _starts(config, batch.obs)), _bootstrap(config, V, state.V_slow, batch.next_obs)

    (v, v_next), pull = jax.vjp(values, state.V)
    log_pi = _log_pi(state, state.pi, batch)
    later = duals.later_actions(config, encoded(spec, state.pi, batch.action), batch.last)
    sent = state.pi.squash(batch.action)
    inputs = _starts(config, batch.obs), _starts(config, sent), None if later is None else _starts(config, later)
    delta = _targets(config, batch, log_pi, v_next, lam)
    return Seen(lam, largest_reward, log_pi, v, v_next, pull, delta, inputs)


def step_dual(config: SBEEDConfig, state: Learner, seen: Seen) -> tuple[Learner, Metrics]:
    """Fit the dual: one step in Algorithm 2; in Algorithm 1 steps up to its tolerance, or an exact last layer."""
    if state.dual is None:
        return state, {}
    goal = seen.delta - seen.v
    dual, opt = state.dual, state.opt["dual"]
    if config.dual != "linear" or config.dual_features == "hidden":
        dual, opt, residual = _descend_dual(config, state, dual, seen, goal)
    if config.dual == "linear":
        dual = duals.solve(dual, seen.inputs, goal, config.dual_l2)
        residual = equations.dual_loss(goal.ravel(), dual(*seen.inputs).ravel())
    return state._replace(dual=dual, opt={**state.opt, "dual": opt}), {"dual_residual": residual}


def step_pi(config: SBEEDConfig, state: Learner, batch: Transition, seen: Seen, key: Key) -> tuple[Learner, Metrics]:
    """Step the policy along the score, and lam towards the target KL from the lagged copy."""
    obs, weight = seen.inputs[0], _score_weight(config, state, seen)
    g = eqx.filter_grad(lambda pi: -jnp.mean(weight * _path_log_pi(config, state, pi, batch)))(state.pi)
    if config.pi_prox == "kl":
        step_size = _decayed(config, state, config.pi_step_size)
        caps = {"kl_radius": config.kl_radius, "ridge": config.fisher_ridge}
        pi, opt = kl_step(state.pi, batch.obs, g, step_size=step_size, **caps), state.opt["pi"]
    else:
        pi, opt = _step(config, state, "pi", g, config.pi_step_size)
    metrics = {}
    if config.pi_prox == "kl":
        metrics["kl"] = jnp.mean(state.pi.kl(pi, batch.obs))
    log_lam, lam_opt = state.log_lam, state.opt["log_lam"]
    if state.prior is not None:
        metrics["prior_kl"] = jnp.mean(state.pi.kl(state.prior, obs))
        if config.adapt_lam:
            excess = config.kl_target - metrics["prior_kl"]
            log_lam, lam_opt = _step(config, state, "log_lam", excess, config.lam_step_size)
    average_entropy = jnp.mean(entropy(state.pi, obs, key))
    state = state._replace(
        pi=pi,
        prior=None if state.prior is None else follow(state.prior, pi, config.prior_rate),
        log_lam=log_lam,
        opt={**state.opt, "pi": opt, "log_lam": lam_opt},
    )
    return state, metrics | {"entropy": average_entropy, "lam_now": seen.lam}


def step_V(config: SBEEDConfig, state: Learner, batch: Transition, seen: Seen) -> tuple[Learner, Metrics]:
    """Step V down L_eta; then update its slow copy."""
    nu = _nu(state, seen)

    def loss(v: Array, v_next: Array) -> Array:
        delta = _targets(config, batch, seen.log_pi, v_next, seen.lam)
        # rho = V + nu with nu held: the same gradient at the dual optimum, without the noise of delta - rho.
        rho = equations.rho_from_nu(nu, v)
        return equations.L_eta(delta.ravel(), v.ravel(), rho.ravel(), eta=config.eta)

    v, goal = seen.v, seen.delta
    (g,) = seen.pull(jax.grad(loss, (0, 1))(v, seen.v_next))
    V, opt = _step(config, state, "V", g, config.V_step_size)
    V_slow = follow(state.V_slow, V, config.slow_rate)
    metrics = {
        "V": jnp.mean(v),
        "V_largest": jnp.max(jnp.abs(v)),
        "reward_largest": state.largest_reward,
        "V_error": jnp.mean((goal - v) ** 2),
        "explained_variance": 1 - jnp.var(goal - v) / jnp.maximum(jnp.var(goal), 1e-8),
    }
    return state._replace(V=V, V_slow=V_slow, opt={**state.opt, "V": opt}), metrics


# ------------------------------------------------------------------------------------------------- network outputs


def _lam(config: SBEEDConfig, state: Learner) -> Array:
    """lam on the scale of the rewards that the learner sees."""
    lam = jnp.exp(state.log_lam)
    return lam / state.scales.returns.scale if config.lam_counts == "raw" and config.normalize_rewards else lam


def value(V: MLP, obs: Array) -> Array:
    return V(obs)[..., 0]


def _bootstrap(config: SBEEDConfig, V: MLP, V_slow: MLP, next_obs: Array) -> Array:
    """kappa V(s') + (1 - kappa) V~(s'); at kappa 0, V is not evaluated, which saves a fifth of an update."""
    slow = value(V_slow, next_obs)
    return jax.lax.cond(
        config.kappa > 0, lambda: config.kappa * value(V, next_obs) + (1 - config.kappa) * slow, lambda: slow
    )


def entropy(pi: Policy, obs: Array, key: Key) -> Array:
    """H(pi(.|s)): exact if actions are discrete, otherwise -log pi of a draw."""
    distribution = pi.distribution(obs)
    if isinstance(distribution, Finite):
        return -jnp.sum(jnp.exp(distribution.log_probs) * distribution.log_probs, axis=-1)
    return -distribution.sample(key)[1]


def _log_pi(state: Learner, pi: Policy, batch: Transition) -> Array:
    """log pi, or log pi / prior where there is one, of the replayed actions.   [B, L]"""
    log_pi = pi.log_prob(batch.obs, batch.action)
    return log_pi if state.prior is None else log_pi - state.prior.log_prob(batch.obs, batch.action)


# ------------------------------------------------------------------------------------------------- targets and steps


def _starts(config: SBEEDConfig, x: Array) -> Array:
    """The positions of a segment that start a target.   [B, L, ...] -> [B, L or 1, ...]"""
    return x if config.all_starts else x[:, :1]


def _targets(config: SBEEDConfig, batch: Transition, log_pi: Array, v_next: Array, lam: Scalar) -> Array:
    ends = batch.terminated, batch.last
    delta = equations.delta_multi_step(
        batch.reward, log_pi, v_next, *ends, gamma=config.gamma, lam=lam, k=config.k, trace=config.trace
    )
    return _starts(config, delta)


def _path_log_pi(config: SBEEDConfig, state: Learner, pi: Policy, batch: Transition) -> Array:
    """The log pi terms of a target, sum_i (gamma trace)^i log pi(a_t+i|s_t+i) = -d delta / d lam; or the first one"""
    log_pi = _log_pi(state, pi, batch)
    if config.pi_credit == "first":
        return _starts(config, log_pi)
    nothing = jnp.zeros_like(batch.reward)
    return -_targets(config, batch._replace(reward=nothing), log_pi, nothing, 1.0)


def _nu(state: Learner, seen: Seen) -> Array:
    """rho - V at each start."""
    return jnp.zeros_like(seen.delta) if state.dual is None else state.dual(*seen.inputs)


def _score_weight(config: SBEEDConfig, state: Learner, seen: Seen) -> Array:
    """The weight of grad log pi, without its factor lam: a step should not shrink with the smoothing."""
    rho = equations.rho_from_nu(_nu(state, seen), seen.v)
    weight = equations.score_weight(seen.delta, seen.v, rho, eta=config.eta)
    if config.centre:
        weight -= jnp.mean(weight)
    return weight / jnp.sqrt(jnp.mean(weight**2) + 1e-8) if config.whiten else weight


def _decayed(config: SBEEDConfig, state: Learner, step_size: Scalar) -> Scalar:
    return step_size / (1 + config.step_decay * state.iteration)


def _step(config: SBEEDConfig, state: Learner, name: str, g: Any, step_size: Scalar) -> tuple[Any, optax.OptState]:
    """Take the Euclidean step of one player; returns its new parameters and its optimiser's new state."""
    rule = optimizer(config, _decayed(config, state, step_size))
    return stepped(rule, getattr(state, name), state.opt[name], g)


def _descend_dual(
    config: SBEEDConfig, state: Learner, dual: duals.Dual, seen: Seen, goal: Array
) -> tuple[duals.Dual, optax.OptState, Array]:
    """Make up to `dual_steps` steps of the dual, until one lowers its loss too little; also that loss."""
    rule = optimizer(config, _decayed(config, state, config.dual_step_size))

    def step(dual: duals.Dual, opt: optax.OptState) -> tuple[duals.Dual, optax.OptState, Array]:
        loss, g = eqx.filter_value_and_grad(duals.loss)(dual, seen.inputs, goal, config.dual_l2)
        return *stepped(rule, dual, opt, g), loss

    first = step(dual, state.opt["dual"])
    if config.dual_steps == 1:
        return first

    def go_on(carry: tuple[Any, Array, Array]) -> Array:
        _, steps, falling = carry
        return falling & (steps < config.dual_steps)

    def again(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        (dual, opt, before), steps, _ = carry
        found = step(dual, opt)
        return found, steps + 1, before - found[2] >= config.dual_tolerance * before

    return jax.lax.while_loop(go_on, again, (first, jnp.ones((), jnp.int32), jnp.asarray(True)))[0]


V_PI_FORM = Agent("v_pi_form", PRESETS, check, init, prepare, iterate, actor, actor)
PCL = V_PI_FORM._replace(name="pcl", presets=PCL_PRESETS)  # path consistency learning: eta = 0 and no dual
