"""TRPO: on a round of data of the policy itself, one step of pi in a trust region, then V anew.

Networks are evaluated once per state before pi's step; from there on there are arrays, and `equations` has the maths.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from sbeed.agents import scales
from sbeed.agents.base import Agent
from sbeed.agents.knobs import check_ranges
from sbeed.agents.players import as_vector, make_policy, natural_gradient, traced_floats, with_bandwidth
from sbeed.agents.scales import Scales
from sbeed.agents.trpo import baseline, equations
from sbeed.agents.trpo.baseline import Baseline, value
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.agents.trpo.presets import PRESETS
from sbeed.data.replay import Replay, newest
from sbeed.models.features import median_bandwidth
from sbeed.models.policies import Policy
from sbeed.ops.prox import capped_step_size, kl_line_search
from sbeed.types import Array, EnvSpec, Key

Metrics = dict[str, Array]

traced_floats(TRPOConfig)


class Learner(NamedTuple):
    """Everything that learning changes."""

    pi: Policy
    V: Baseline
    opt: optax.OptState  # V's
    scales: Scales
    iteration: Array


class Round(NamedTuple):
    """What pi's step knows of a round. Arrays are as long as the ring; a shorter round fills their ends."""

    obs: Array  # [N, n]
    action: Array
    log_pi: Array  # of the policy that acted: [N]
    advantage: Array  # of mean 0 and variance 1: [N]
    weight: Array  # 1 / size for the round's own transitions, else 0: [N]
    size: Array  # number of the round's own transitions: []


# ------------------------------------------------------------------------------------------------- beginning


def check(config: TRPOConfig, spec: EnvSpec) -> None:
    """A ValueError in one line for a config that cannot run on this environment."""
    check_ranges(config)
    steps, capacity = config.steps_per_iteration, config.replay_capacity
    if steps > capacity:
        raise ValueError(f"steps_per_iteration: must not exceed replay_capacity, {capacity}, got {steps}")


def init(config: TRPOConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_V = jax.random.split(key)
    pi = make_policy(
        spec,
        k_pi,
        kind=config.policy,
        squash=False,
        hidden=config.hidden,
        activation=config.activation,
        features=config.features,
        initial_std=config.initial_std,
    )
    V, opt = baseline.init(config, spec, k_V)
    return Learner(pi, V, opt, scales.init(spec.observation_size), jnp.zeros((), jnp.int32))


def prepare(config: TRPOConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    """Once, with the first round: the normalisers' first statistics and the bandwidths of random features."""
    known = scales.observe(config, state.scales, replay)
    obs = scales.scaled(config, known, newest(replay, config.steps_per_iteration)).obs
    width = median_bandwidth(obs)
    return state._replace(pi=with_bandwidth(state.pi, width), V=with_bandwidth(state.V, width), scales=known)


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: TRPOConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """One step of pi, then V's fit. The scales move last: the round's policy is the one that acted in it."""
    data = scales.scaled(config, state.scales, newest(replay, replay.capacity))
    # Where the round is shorter, what stands in comes first: no advantage looks back at it.
    counted = jnp.arange(replay.capacity) >= replay.capacity - replay.size
    weight = counted / replay.size.astype(jnp.float32)
    v, v_next = value(state.V, data.obs), value(state.V, data.next_obs)
    advantage = equations.advantages(
        data.reward, v, v_next, data.terminated, data.last, gamma=config.gamma, gae_lambda=config.gae_lambda
    )
    goal = v + advantage
    log_pi = state.pi.log_prob(data.obs, data.action)
    seen = Round(data.obs, data.action, log_pi, equations.standardized(advantage, weight), weight, replay.size)
    pi, metrics = step_pi(config, state.pi, seen)
    V, opt = baseline.fit(config, state.V, state.opt, data.obs, goal, replay.size, key)
    moved = scales.observe(config, state.scales, replay)
    # A round that the end of a run cuts short would count its first state again and again.
    whole = replay.size >= config.steps_per_iteration
    moved = jax.tree.map(lambda new, old: jnp.where(whole, new, old), moved, state.scales)
    (pi,), (V,) = (scales.carried(config, state.scales, moved, (model,), replay) for model in (pi, V))
    metrics |= {
        "entropy": -equations.mean(log_pi, weight),
        "V": equations.mean(v, weight),
        "V_error": equations.mean(advantage**2, weight),
        "explained_variance": 1
        - equations.variance(advantage, weight) / jnp.maximum(equations.variance(goal, weight), 1e-8),
        "reward_largest": jnp.max(jnp.abs(data.reward)),
        "transitions": replay.size.astype(jnp.float32),
    }
    return Learner(pi, V, opt, moved, state.iteration + 1), metrics


def step_pi(config: TRPOConfig, pi: Policy, seen: Round) -> tuple[Policy, Metrics]:
    """Along F^-1 grad surrogate as far as kl_radius allows to second order; then back until it truly does."""

    def loss(new: Policy) -> Array:
        log_pi = new.log_prob(seen.obs, seen.action)
        return -equations.surrogate(log_pi, seen.log_pi, seen.advantage, seen.weight)

    def kl(new: Policy) -> Array:
        return equations.mean(pi.kl(new, seen.obs), seen.weight)

    g = eqx.filter_grad(loss)(pi)
    direction, flat_g, rebuild = natural_gradient(pi, _spread(seen), g, ridge=config.fisher_ridge)
    size = capped_step_size(flat_g, direction, step_size=jnp.inf, kl_radius=config.kl_radius)
    flat, step = as_vector(pi)[0], size * direction

    def of(measure: Callable[[Policy], Array]) -> Callable[[Array], Array]:
        return lambda w: measure(rebuild(w))

    if config.line_search:
        # A full step misses the radius by a few per cent half of the time: half of it would give most of it away.
        flat = kl_line_search(of(kl), of(loss), flat, step, kl_radius=config.kl_radius, shrink=0.8, tries=15)
    else:
        flat = flat - step
    new = rebuild(flat)
    return new, {"kl": kl(new), "surrogate": -loss(new)}


def _spread(seen: Round) -> Array:
    """The round's states, each as often as the others, give or take one, in an array of fixed length.   [N, n]

    The Fisher matrix is over states without weights.
    """
    length = len(seen.weight)
    return seen.obs[length - seen.size + np.arange(length) % seen.size]


# ------------------------------------------------------------------------------------------------- who acts


def actor(config: TRPOConfig, state: Learner) -> Policy:
    """Who collects, and who is evaluated: pi, on observations normalised as it is used to."""
    return scales.acting(config, state.scales, state.pi)


TRPO = Agent("trpo", PRESETS, check, init, prepare, iterate, actor, actor)
