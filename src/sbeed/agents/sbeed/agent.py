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

from sbeed.agents import scales
from sbeed.agents.base import Agent
from sbeed.agents.players import encoded, follow, kl_step, stepped
from sbeed.agents.sbeed import dual as duals
from sbeed.agents.sbeed import equations
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.sbeed.learner import Learner, actor, check, deployed, init, optimizer, prepare
from sbeed.agents.sbeed.presets import PCL_PRESETS, PRESETS
from sbeed.data.replay import Replay, sample
from sbeed.models.nets import MLP
from sbeed.models.policies import Finite, Policy
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

Metrics = dict[str, Array]


class Seen(NamedTuple):
    """What an update knows of its batch once the networks have been evaluated, each state once."""

    lam: Array
    largest_reward: Array  # so far, in absolute value
    log_pi: Array  # of the replayed actions, within its bound: [B, L]
    v: Array  # V at each start: [B, starts]
    v_next: Array  # of the states reached, as the bootstrap takes them: [B, L]
    pull: Callable[[tuple[Array, Array]], tuple[MLP]]  # gradients in these two to one in V's parameters
    delta: Array  # each start's target: [B, starts]
    inputs: tuple[Array, Array, Array | None]  # what rho sees of each start: its state, action and perhaps later ones


class Own(NamedTuple):
    """What pi's own actions are worth: the draws are made, and the critic asked, once for pi and V."""

    value: Array  # min Q - lam log pi at each start: [B, starts]
    pull: Callable[[Array], tuple[Policy]]  # a gradient in it to one in pi's parameters
    entropy: Array  # [B, starts]


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: SBEEDConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """`updates_per_iteration` updates in one program, then the policy's own where it has any; metrics are means."""
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
    """The newest round counts in the scales; in that of observations as long as pi is young.

    Another scale of observations is another policy, behind the back of the cap on pi's steps: the sharper pi, the more.
    """
    moved = scales.observe(config, state.scales, replay)
    young = state.iteration < config.scale_rounds
    observations = jax.tree.map(partial(jnp.where, young), moved.observations, state.scales.observations)
    return state._replace(scales=moved._replace(observations=observations))


def _batch(config: SBEEDConfig, state: Learner, replay: Replay, key: Key, starts: int, among: int | None) -> Transition:
    """Segments with `starts` starts between them, on the learner's own scale."""
    count = max(1, starts // config.length) if config.all_starts else starts
    batch = sample(replay, key, count, config.length, among)
    if config.long_percent < 100:
        batch = batch._replace(last=batch.last.at[config.long_targets :, 0].set(True))
    return scales.scaled(config, state.scales, batch)


# ------------------------------------------------------------------------------------------------- one update


def update(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key, *, with_pi: bool = True
) -> tuple[Learner, Metrics]:
    """One step of each player on a batch of segments [B, L, ...]: the dual first, then pi and V against it."""
    seen = look(config, spec, state, batch)
    state, metrics = step_dual(config, state._replace(largest_reward=seen.largest_reward), seen)
    own = own_actions(config, state, seen, key)
    if with_pi:
        state, of_pi = step_pi(config, spec, state, batch, seen, own, key)
        metrics |= of_pi
    soft = own.value if own is not None and config.V_actions != "replay" else None
    state, of_V = step_V(config, state, batch, seen, soft)
    return state, metrics | of_V


def update_pi(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key
) -> tuple[Learner, Metrics]:
    """One step of the policy alone."""
    seen = look(config, spec, state, batch)
    return step_pi(config, spec, state, batch, seen, own_actions(config, state, seen, key), key)


def look(config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition) -> Seen:
    """Evaluate the networks once per state of the batch. Networks end here."""
    lam = jnp.exp(state.log_lam)
    largest_reward = jnp.maximum(state.largest_reward, jnp.max(jnp.abs(batch.reward)))
    bound = equations.value_bound(largest_reward, _most_entropy(config, spec), gamma=config.gamma, lam=lam)

    def values(V: MLP) -> tuple[Array, Array]:
        v = value(V, _starts(config, batch.obs))
        if config.V_actions == "policy":
            return v, jnp.clip(_reached(config, partial(value, state.V_slow), batch.next_obs), -bound, bound)
        # L_eta's own bootstrap, without a bound: rho must see what V's gradient sees.
        return v, _reached(config, partial(_bootstrap, config, V, state.V_slow), batch.next_obs)

    (v, v_next), pull = jax.vjp(values, state.V)
    log_pi = _counted_log_pi(config, spec, state, batch, v_next, lam)
    later = duals.later_actions(config, encoded(spec, state.pi, batch.action), batch.last)
    sent = state.pi.squash(batch.action)
    inputs = _starts(config, batch.obs), _starts(config, sent), None if later is None else _starts(config, later)
    delta = _targets(config, batch, log_pi, v_next, lam)
    return Seen(lam, largest_reward, log_pi, v, v_next, pull, delta, inputs)


def step_dual(config: SBEEDConfig, state: Learner, seen: Seen) -> tuple[Learner, Metrics]:
    """Algorithm 2 takes one step; Algorithm 1 as many as its tolerance asks for, or solves for the last layer."""
    if state.dual is None:
        return state, {}
    goal = seen.delta + seen.lam * _starts(config, seen.log_pi)
    if config.dual != "critic":
        goal = seen.delta - seen.v
    dual, opt = state.dual, state.opt["dual"]
    if config.dual != "linear" or config.dual_features == "hidden":
        dual, opt, residual = _descend_dual(config, state, dual, seen, goal)
    if config.dual == "linear":
        dual = duals.solve(dual, seen.inputs, goal, config.dual_l2)
        residual = equations.dual_loss(goal.ravel(), dual(*seen.inputs)[0].ravel())
    return state._replace(dual=dual, opt={**state.opt, "dual": opt}), {"dual_residual": residual}


def own_actions(config: SBEEDConfig, state: Learner, seen: Seen, key: Key) -> Own | None:
    """None where nobody asks: V's loss and pi's gradient are both at replayed actions."""
    if config.V_actions == "replay" and config.pi_gradient == "score":
        return None
    return Own(*jax.vjp(lambda pi: soft_values(state, pi, seen.inputs[0], key), state.pi, has_aux=True))


def step_pi(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, seen: Seen, own: Own | None, key: Key
) -> tuple[Learner, Metrics]:
    """The policy's step, and that of lam towards the entropy asked for."""
    obs = seen.inputs[0]
    gradients: list[Policy] = []
    if own is not None and config.pi_gradient != "score":
        gradients += own.pull(jnp.full_like(own.value, -1 / own.value.size))
    if config.pi_gradient != "pathwise":
        weight = _score_weight(config, state, seen)
        gradients.append(
            eqx.filter_grad(lambda pi: -jnp.mean(weight * _path_log_pi(config, spec, state, pi, batch)))(state.pi)
        )
    g = jax.tree.map(lambda *parts: sum(parts), *gradients)
    if config.pi_prox == "kl":
        step_size = _decayed(config, state, config.pi_step_size)
        caps = {"kl_radius": config.kl_radius, "ridge": config.fisher_ridge}
        pi, opt = kl_step(state.pi, batch.obs, g, step_size=step_size, **caps), state.opt["pi"]
    else:
        pi, opt = _step(config, state, "pi", g, config.pi_step_size)
    metrics = {}
    if config.pi_prox == "kl":
        metrics["kl"] = jnp.mean(state.pi.kl(pi, batch.obs))
    average_entropy = jnp.mean(entropy(state.pi, obs, key) if own is None else own.entropy)
    log_lam, lam_opt = state.log_lam, state.opt["log_lam"]
    excess = average_entropy - _entropy_target(config, spec)
    if state.prior is not None:
        metrics["prior_kl"] = jnp.mean(state.pi.kl(state.prior, obs))
        excess = config.kl_target - metrics["prior_kl"]
    if config.adapt_lam:
        log_lam, lam_opt = _step(config, state, "log_lam", excess, config.lam_step_size)
    state = state._replace(
        pi=pi,
        pi_slow=follow(state.pi_slow, pi, _slow_pi_rate(config, state)),
        prior=follow(state.prior, pi, config.prior_rate) if config.prior == "lagged" else state.prior,
        log_lam=log_lam,
        opt={**state.opt, "pi": opt, "log_lam": lam_opt},
    )
    return state, metrics | {"entropy": average_entropy, "lam_now": seen.lam}


def step_V(
    config: SBEEDConfig, state: Learner, batch: Transition, seen: Seen, soft: Array | None
) -> tuple[Learner, Metrics]:
    """V's step on L_eta at replayed actions, on (soft value - V)^2 at actions of pi, or on both; then its copy's."""
    nu = _nu(config, state, seen) if config.V_actions != "policy" else None

    def loss(v: Array, v_next: Array) -> Array:
        on_policy = jnp.zeros(()) if soft is None else jnp.mean((soft - v) ** 2)
        if nu is None:
            return on_policy
        delta = _targets(config, batch, seen.log_pi, v_next, seen.lam)
        # rho = V + nu with nu held: the same gradient at the dual optimum, without the noise of delta - rho.
        rho = equations.rho_from_nu(nu, v)
        on_replay = equations.L_eta(delta.ravel(), v.ravel(), rho.ravel(), eta=config.eta)
        share = 1.0 if soft is None else config.replay_share
        return share * on_replay + (1 - share) * on_policy

    v = seen.v
    (g,) = seen.pull(jax.grad(loss, (0, 1))(v, seen.v_next))
    V, opt = _step(config, state, "V", g, config.V_step_size)
    V_slow = follow(state.V_slow, V, config.slow_rate)
    goal = seen.delta if soft is None else soft
    metrics = {
        "V": jnp.mean(v),
        "V_largest": jnp.max(jnp.abs(v)),
        "reward_largest": state.largest_reward,
        "V_error": jnp.mean((goal - v) ** 2),
        "explained_variance": 1 - jnp.var(goal - v) / jnp.maximum(jnp.var(goal), 1e-8),
    }
    return state._replace(V=V, V_slow=V_slow, opt={**state.opt, "V": opt}), metrics


# ------------------------------------------------------------------------------------------------- what networks say


def value(V: MLP, obs: Array) -> Array:
    return V(obs)[..., 0]


def _bootstrap(config: SBEEDConfig, V: MLP, V_slow: MLP, next_obs: Array) -> Array:
    """kappa V(s') + (1 - kappa) V~(s'); where kappa is 0, V is not asked at all, which saves a fifth of an update."""
    slow = value(V_slow, next_obs)
    return jax.lax.cond(
        config.kappa > 0, lambda: config.kappa * value(V, next_obs) + (1 - config.kappa) * slow, lambda: slow
    )


def _reached(config: SBEEDConfig, f: Callable[..., Array], *x: Array) -> Array:
    """f wherever a target goes: at every start, and after it where the target is a long one; elsewhere 0.   [B, L]"""
    if config.long_percent == 100:
        return f(*x)
    first = f(*(part[:, :1] for part in x))
    return jnp.concatenate([first, _later(config, f, *x)], axis=1)


def _later(config: SBEEDConfig, f: Callable[..., Array], *x: Array) -> Array:
    """f after the starts of long targets; elsewhere 0.   [B, L, ...] -> [B, L - 1]"""
    targets, length = x[0].shape[:2]
    if length == 1:
        return jnp.zeros((targets, 0))
    long = config.long_targets if config.long_percent < 100 else targets
    return jnp.pad(f(*(part[:long, 1:] for part in x)), ((0, targets - long), (0, 0)))


def soft_values(state: Learner, pi: Policy, obs: Array, key: Key) -> tuple[Array, Array]:
    """min Q - lam log pi at an action of pi, differentiable in pi, and pi's entropy; exact if actions are discrete."""
    lam = jnp.exp(state.log_lam)
    assert state.dual is not None  # `check` has seen to it
    if state.dual.discrete:
        log_pi = relative = pi.distribution(obs).log_probs
        if state.prior is not None:
            relative = log_pi - state.prior.distribution(obs).log_probs
        soft = jnp.sum(jnp.exp(log_pi) * (state.dual.all_actions(obs).min(0) - lam * relative), axis=-1)
        return soft, -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)
    raw, log_pi = pi.sample(obs, key)
    relative = log_pi if state.prior is None else log_pi - state.prior.log_prob(obs, raw)
    return state.dual(obs, pi.squash(raw)).min(0) - lam * relative, -log_pi


def entropy(pi: Policy, obs: Array, key: Key) -> Array:
    """H(pi(.|s)): exact if actions are discrete, otherwise -log pi of a draw."""
    distribution = pi.distribution(obs)
    if isinstance(distribution, Finite):
        return -jnp.sum(jnp.exp(distribution.log_probs) * distribution.log_probs, axis=-1)
    return -distribution.sample(key)[1]


def _counted_log_pi(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, v_next: Array, lam: Array
) -> Array:
    """log pi of the replayed actions as targets count it; 0 where nothing depends on it.   [B, L]"""
    score = partial(_bounded_log_pi, config, spec, state, state.pi)
    if _scores_first_actions(config):
        log_pi = _reached(config, score, batch.obs, batch.action)
    else:
        log_pi = jnp.pad(_later(config, score, batch.obs, batch.action), ((0, 0), (1, 0)))
    return _with_dual(config, state, batch, log_pi, v_next, lam) if config.dual == "critic" and config.k > 1 else log_pi


def _scores_first_actions(config: SBEEDConfig) -> bool:
    """Whether log pi of a target's first action counts: for Q, whose goal is without it, only in V's or pi's step."""
    return (
        config.dual != "critic" or config.all_starts or config.V_actions != "policy" or config.pi_gradient != "pathwise"
    )


def _bounded_log_pi(config: SBEEDConfig, spec: EnvSpec, state: Learner, pi: Policy, obs: Array, action: Array) -> Array:
    """log pi, or log pi / prior where there is one, of the replayed actions.   [B, L]"""
    bound = config.log_pi_clip * (spec.action_size if spec.action_kind == "box" else 1)
    log_pi = pi.log_prob(obs, action)
    if state.prior is not None:
        log_pi -= state.prior.log_prob(obs, action)
    return jnp.clip(log_pi, -bound, bound)


def _with_dual(
    config: SBEEDConfig, state: Learner, batch: Transition, log_pi: Array, v_next: Array, lam: Array
) -> Array:
    """log pi of a target's later actions, mixed with (Q - V) / lam, which it equals at the optimum.   [B, L]

    With a share of 1, r + gamma V(s') - Q(s, a) is what passes along the trace: a correction for off-policy actions
    without importance weights.
    """
    assert state.dual is not None
    dual, pi = state.dual, state.pi
    q = _later(config, lambda obs, action: dual(obs, pi.squash(action)).mean(0), batch.obs, batch.action)
    v = v_next[:, :-1]  # of the state that the step before reached
    mixed = (1 - config.dual_log_pi) * log_pi[:, 1:] + config.dual_log_pi * (q - v) / lam
    return log_pi.at[:, 1:].set(mixed)


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


def _path_log_pi(config: SBEEDConfig, spec: EnvSpec, state: Learner, pi: Policy, batch: Transition) -> Array:
    """What a target holds of log pi, sum_i (gamma trace)^i log pi(a_t+i|s_t+i) = -d delta / d lam; or its first term"""
    log_pi = _bounded_log_pi(config, spec, state, pi, batch.obs, batch.action)
    if config.pi_credit == "first":
        return _starts(config, log_pi)
    nothing = jnp.zeros_like(batch.reward)
    log_pi = log_pi.at[:, 1:].multiply(1 - config.dual_log_pi)  # the rest of it is the dual's
    return -_targets(config, batch._replace(reward=nothing), log_pi, nothing, 1.0)


def _nu(config: SBEEDConfig, state: Learner, seen: Seen) -> Array:
    """rho - V at each start."""
    if state.dual is None:
        return jnp.zeros_like(seen.delta)
    y = state.dual(*seen.inputs).min(0)
    if config.dual != "critic":
        return y
    return equations.nu_from_rho(y - seen.lam * _starts(config, seen.log_pi), seen.v)


def _score_weight(config: SBEEDConfig, state: Learner, seen: Seen) -> Array:
    """What multiplies grad log pi. Its lam is left out: a step should not shrink with the smoothing."""
    rho = equations.rho_from_nu(_nu(config, state, seen), seen.v)
    weight = equations.score_weight(seen.delta, seen.v, rho, eta=config.eta)
    if config.centre:
        weight -= jnp.mean(weight)
    return weight / jnp.sqrt(jnp.mean(weight**2) + 1e-8) if config.whiten else weight


def _entropy_target(config: SBEEDConfig, spec: EnvSpec) -> Scalar:
    return config.entropy_target * (spec.action_size if spec.action_kind == "box" else jnp.log(spec.action_size))


def _most_entropy(config: SBEEDConfig, spec: EnvSpec) -> Scalar:
    """A bound on |H(pi(.|s))|, or where a Gaussian has none, what it is meant to stay within."""
    if spec.action_kind == "discrete":
        return jnp.log(spec.action_size)
    return spec.action_size * jnp.maximum(jnp.log(2.0), jnp.abs(config.entropy_target))


def _decayed(config: SBEEDConfig, state: Learner, step_size: Scalar) -> Scalar:
    return step_size / (1 + config.step_decay * state.iteration)


def _slow_pi_rate(config: SBEEDConfig, state: Learner) -> Scalar:
    """A young policy's copy forgets its first tries: it averages over a tenth of the updates so far at the most."""
    updates = state.iteration * config.updates_per_iteration
    return jnp.maximum(config.pi_slow_rate, 10 / (10 + updates))


def _step(config: SBEEDConfig, state: Learner, name: str, g: Any, step_size: Scalar) -> tuple[Any, optax.OptState]:
    """The Euclidean step of one player: its new parameters and its optimiser's new state."""
    rule = optimizer(config, _decayed(config, state, step_size))
    return stepped(rule, getattr(state, name), state.opt[name], g)


def _descend_dual(
    config: SBEEDConfig, state: Learner, dual: duals.Dual, seen: Seen, goal: Array
) -> tuple[duals.Dual, optax.OptState, Array]:
    """Up to `dual_steps` steps of the dual; the loss per twin before the last of them."""
    rule = optimizer(config, _decayed(config, state, config.dual_step_size))

    def step(dual: duals.Dual, opt: optax.OptState) -> tuple[duals.Dual, optax.OptState, Array]:
        loss, g = eqx.filter_value_and_grad(duals.loss)(dual, seen.inputs, goal, config.dual_l2)
        return *stepped(rule, dual, opt, g), loss / config.twins

    first = step(dual, state.opt["dual"])
    if config.dual_steps == 1:
        return first

    def go_on(carry: tuple[Any, Array, Array]) -> Array:
        (_, _, loss), before, steps = carry
        return (steps < config.dual_steps) & (before - loss > config.dual_tolerance * before)

    def again(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        (dual, opt, loss), _, steps = carry
        return step(dual, opt), loss, steps + 1

    return jax.lax.while_loop(go_on, again, (first, jnp.full_like(first[2], jnp.inf), jnp.ones((), jnp.int32)))[0]


SBEED = Agent("sbeed", PRESETS, check, init, prepare, iterate, actor, deployed)
PCL = SBEED._replace(name="pcl", presets=PCL_PRESETS)  # path consistency learning: eta = 0 and no dual
