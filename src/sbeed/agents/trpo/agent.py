"""TRPO: on a round of data of the policy itself, one step of pi in a trust region, then V anew.

Networks are evaluated once per state before pi's step; from there on there are arrays, and `equations` has the maths.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent, traced_floats
from sbeed.agents.shared import baseline, on_policy, running_scales
from sbeed.agents.shared.baseline import Baseline, value
from sbeed.agents.shared.running_scales import Scales
from sbeed.agents.shared.steps import as_vector, natural_gradient
from sbeed.agents.trpo import equations
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.agents.trpo.presets import PRESETS
from sbeed.data.replay import Replay, newest
from sbeed.models.policies import Policy
from sbeed.ops.prox import capped_step_size, kl_line_search
from sbeed.ops.weighted import explained_variance, mean, standardized
from sbeed.types import Array, EnvSpec, Key

Metrics = dict[str, Array]

traced_floats(TRPOConfig)


class Learner(NamedTuple):
    """All that learning changes."""

    pi: Policy
    V: Baseline
    opt: optax.OptState  # V's
    scales: Scales
    iteration: Array


class Round(NamedTuple):
    """The data of a round that pi's step uses. Arrays are as long as the ring; a shorter round fills their ends."""

    obs: Array  # [N, n]
    action: Array
    log_pi: Array  # of the policy that acted: [N]
    advantage: Array  # of mean 0 and variance 1: [N]
    weight: Array  # 1 / size for the round's own transitions, else 0: [N]
    size: Array  # number of the round's own transitions: []


# ------------------------------------------------------------------------------------------------- beginning


def init(config: TRPOConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_V = jax.random.split(key)
    pi = on_policy.new_policy(config, spec, k_pi)
    V, opt = baseline.init(config, spec, k_V)
    return Learner(pi, V, opt, running_scales.init(spec.observation_size), jnp.zeros((), jnp.int32))


def prepare(config: TRPOConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    known, (pi, V) = on_policy.begin(config, state.scales, (state.pi, state.V), replay)
    return state._replace(pi=pi, V=V, scales=known)


# ------------------------------------------------------------------------------------------------- one round


def iterate(config: TRPOConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """Step pi, fit V, then update the scales."""
    data = running_scales.scaled(config, state.scales, newest(replay, replay.capacity))
    # Padding rows come first, and no advantage looks back at them.
    weight = on_policy.counted(replay) / replay.size.astype(jnp.float32)
    v, v_next = value(state.V, data.obs), value(state.V, data.next_obs)
    advantage = equations.advantages(
        data.reward, v, v_next, data.terminated, data.last, gamma=config.gamma, gae_lambda=config.gae_lambda
    )
    goal = v + advantage
    log_pi = state.pi.log_prob(data.obs, data.action)
    seen = Round(data.obs, data.action, log_pi, standardized(advantage, weight), weight, replay.size)
    pi, metrics = step_pi(config, state.pi, seen)
    V, opt = baseline.fit(config, state.V, state.opt, data.obs, goal, replay.size, key)
    moved, (pi, V) = on_policy.end(config, state.scales, (pi, V), replay)
    metrics |= {
        "entropy": -mean(log_pi, weight),
        "V": mean(v, weight),
        "V_error": mean(advantage**2, weight),
        "explained_variance": explained_variance(advantage, goal, weight),
        "reward_largest": jnp.max(jnp.abs(data.reward)),
        "transitions": replay.size.astype(jnp.float32),
    }
    return Learner(pi, V, opt, moved, state.iteration + 1), metrics


def step_pi(config: TRPOConfig, pi: Policy, seen: Round) -> tuple[Policy, Metrics]:
    """Step along F^-1 grad surrogate as far as kl_radius allows to second order; then shorten until KL allows it."""

    def loss(new: Policy) -> Array:
        log_pi = new.log_prob(seen.obs, seen.action)
        return -equations.surrogate(log_pi, seen.log_pi, seen.advantage, seen.weight)

    def kl(new: Policy) -> Array:
        return mean(pi.kl(new, seen.obs), seen.weight)

    g = eqx.filter_grad(loss)(pi)
    direction, flat_g, rebuild = natural_gradient(
        pi, on_policy.spread(seen.obs, seen.size), g, ridge=config.fisher_ridge
    )
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


# ------------------------------------------------------------------------------------------------- acting


def actor(config: TRPOConfig, state: Learner) -> Policy:
    """The policy that collects data and is evaluated: pi with its normaliser."""
    return running_scales.acting(config, state.scales, state.pi)


TRPO = Agent("trpo", PRESETS, on_policy.check, init, prepare, iterate, actor, actor)
