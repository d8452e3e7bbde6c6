"""Dual-AC: on a round of data of the policy itself, V to its minimum, then a proximal step of alpha and of pi.

Networks are evaluated once per state before the steps; from there on there are arrays, and `equations` has the maths.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent, traced_floats
from sbeed.agents.dual_ac import equations
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.dual_ac.presets import PRESETS
from sbeed.agents.shared import baseline, on_policy, running_scales
from sbeed.agents.shared.baseline import Baseline, LinearV, value
from sbeed.agents.shared.running_scales import Scales
from sbeed.agents.shared.steps import kl_step
from sbeed.data.replay import Replay, newest
from sbeed.models.policies import Policy
from sbeed.ops.weighted import explained_variance, mean, standardized
from sbeed.types import Array, EnvSpec, Key, Transition

Metrics = dict[str, Array]

traced_floats(DualACConfig)


class Learner(NamedTuple):
    """All that learning changes."""

    pi: Policy
    V: Baseline
    opt: optax.OptState  # V's
    alpha: LinearV  # log of alpha over the distribution of the states visited, up to a constant
    scales: Scales
    iteration: Array


def init(config: DualACConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_V, k_alpha = jax.random.split(key, 3)
    pi = on_policy.new_policy(config, spec, k_pi)
    V, opt = baseline.init(config, spec, k_V)
    alpha = baseline.linear(config, spec, k_alpha)
    return Learner(pi, V, opt, alpha, running_scales.init(spec.observation_size), jnp.zeros((), jnp.int32))


def prepare(config: DualACConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    known, (pi, V, alpha) = on_policy.begin(config, state.scales, (state.pi, state.V, state.alpha), replay)
    return state._replace(pi=pi, V=V, alpha=alpha, scales=known)


def iterate(config: DualACConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """Minimise over V for the alpha and pi of the round; then step both of these; then update the scales."""
    data = running_scales.scaled(config, state.scales, newest(replay, replay.capacity))
    # Padding rows come first and have no mass, so they change nothing.
    counted = on_policy.counted(replay)
    weight = counted / replay.size.astype(jnp.float32)
    ratio = equations.ratio_of(value(state.alpha, data.obs), weight)
    passing = equations.along(ratio, data.last, gamma=config.gamma, k=config.k)
    beyond = equations.value_beyond(value(state.V, data.next_obs), data.terminated)

    path = equations.path_return(data.reward, beyond, data.last, gamma=config.gamma)
    goal = equations.V_goal(path, ratio, passing[-1], weight, eta_V=config.eta_V)
    V, opt = baseline.fit(config, state.V, state.opt, data.obs, goal, replay.size, key)
    v = value(V, data.obs)

    known = (data.reward, v, beyond, data.last)
    delta = equations.delta(*known, gamma=config.gamma, k=config.k)
    alpha = step_alpha(config, state.alpha, data.obs, delta, counted)
    advantage = equations.advantages(*known, passing, gamma=config.gamma, k=config.k)
    pi, metrics = step_pi(config, state.pi, data, standardized(advantage, weight), weight, replay.size)

    moved, (pi, V, alpha) = on_policy.end(config, state.scales, (pi, V, alpha), replay)
    metrics |= {
        "V": mean(v, weight),
        "path_error": mean((path - v) ** 2, weight),
        "explained_variance": explained_variance(path - v, path, weight),
        "delta": mean(ratio * delta, weight),
        "V_pull": jnp.sqrt(mean((goal - path) ** 2, weight)),
        "alpha_largest": jnp.max(ratio),
        "alpha_spread": 1 / mean(ratio**2, weight),
        "reward_largest": jnp.max(jnp.abs(data.reward)),
        "transitions": replay.size.astype(jnp.float32),
    }
    return Learner(pi, V, opt, alpha, moved, state.iteration + 1), metrics


def step_alpha(config: DualACConfig, alpha: LinearV, obs: Array, delta: Array, counted: Array) -> LinearV:
    """log alpha + step_size E[delta | s], the mean by least squares on alpha's own features: `equations.alpha_step`."""
    mean_delta = baseline.least_squares(alpha, obs, delta, counted, config.V_ridge)
    return eqx.tree_at(lambda a: a.weights, alpha, alpha.weights + config.alpha_step_size * mean_delta.weights)


def step_pi(
    config: DualACConfig, pi: Policy, data: Transition, advantage: Array, weight: Array, size: Array
) -> tuple[Policy, Metrics]:
    """The KL-prox step along E[A grad log pi], as long as kl_radius allows to second order."""

    def loss(new: Policy) -> Array:
        return -mean(advantage * new.log_prob(data.obs, data.action), weight)

    g = eqx.filter_grad(loss)(pi)
    states = on_policy.spread(data.obs, size)
    new = kl_step(pi, states, g, step_size=jnp.inf, kl_radius=config.kl_radius, ridge=config.fisher_ridge)
    entropy = -mean(pi.log_prob(data.obs, data.action), weight)
    return new, {"kl": mean(pi.kl(new, data.obs), weight), "entropy": entropy}


def actor(config: DualACConfig, state: Learner) -> Policy:
    """The policy that collects data and is evaluated: pi with its normaliser."""
    return running_scales.acting(config, state.scales, state.pi)


DUAL_AC = Agent("dual_ac", PRESETS, on_policy.check, init, prepare, iterate, actor, actor)
