"""DDPG: a critic and a deterministic policy, one step of each on a batch of transitions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent
from sbeed.agents.ddpg import equations
from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.ddpg.learner import Learner, actor, check, init, noisy, prepare
from sbeed.agents.ddpg.presets import PRESETS
from sbeed.agents.shared import running_scales
from sbeed.agents.shared.steps import follow, optimizer, stepped
from sbeed.data.replay import Replay, sample
from sbeed.models.critics import Critic
from sbeed.models.policies import Gaussian, LinearGaussian
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

Metrics = dict[str, Array]


def iterate(config: DDPGConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """`updates_per_iteration` updates in one program; metrics are means."""
    moved = running_scales.observe(config, state.scales, replay)
    pi, pi_slow = running_scales.carried(config, state.scales, moved, (state.pi, state.pi_slow), replay)
    state = state._replace(scales=moved, pi=pi, pi_slow=pi_slow)

    def one(state: Learner, k: Key) -> tuple[Learner, Metrics]:
        batch = jax.tree.map(lambda x: x[:, 0], sample(replay, k, config.batch_size, 1))
        return update(config, state, running_scales.scaled(config, state.scales, batch))

    state, metrics = jax.lax.scan(one, state, jax.random.split(key, config.updates_per_iteration))
    return state._replace(iteration=state.iteration + 1), jax.tree.map(jnp.mean, metrics)


def update(config: DDPGConfig, state: Learner, batch: Transition) -> tuple[Learner, Metrics]:
    """One step of each player on transitions [B, ...]: the critic first, pi against it; then the slow copies'."""
    state, of_Q = step_Q(config, state, batch)
    state, of_pi = step_pi(config, state, batch.obs)
    pi_slow = follow(state.pi_slow, state.pi, config.slow_rate)
    return state._replace(pi_slow=pi_slow, Q_slow=follow(state.Q_slow, state.Q, config.slow_rate)), of_Q | of_pi


def step_Q(config: DDPGConfig, state: Learner, batch: Transition) -> tuple[Learner, Metrics]:
    """Step the critic towards the slow critic's value of the slow policy's next action."""
    q_next = value(state.Q_slow, batch.next_obs, noisy(config, state.pi_slow).mode(batch.next_obs))
    target = equations.Q_target(batch.reward, q_next, batch.terminated, gamma=config.gamma)

    def loss(Q: Critic) -> tuple[Array, Array]:
        q = value(Q, batch.obs, noisy(config, state.pi).squash(batch.action))
        return equations.Q_loss(q, target), q

    (error, q), g = eqx.filter_value_and_grad(loss, has_aux=True)(state.Q)
    Q, opt = _step(state, "Q", g, config.Q_step_size)
    metrics = {
        "Q": jnp.mean(q),
        "Q_largest": jnp.max(jnp.abs(q)),
        "Q_error": error,
        "reward_largest": jnp.max(jnp.abs(batch.reward)),
    }
    return state._replace(Q=Q, opt={**state.opt, "Q": opt}), metrics


def step_pi(config: DDPGConfig, state: Learner, obs: Array) -> tuple[Learner, Metrics]:
    """Step pi up the critic's gradient."""

    def loss(pi: Gaussian | LinearGaussian) -> tuple[Array, Array]:
        action = noisy(config, pi).mode(obs)
        return equations.pi_loss(value(state.Q, obs, action)), action

    (_, action), g = eqx.filter_value_and_grad(loss, has_aux=True)(state.pi)
    pi, opt = _step(state, "pi", g, config.pi_step_size)
    return state._replace(pi=pi, opt={**state.opt, "pi": opt}), {"action_size": jnp.mean(jnp.abs(action))}


def value(Q: Critic, obs: Array, action: Array) -> Array:
    return Q(obs, action)[0]


def _step(state: Learner, name: str, g: Any, step_size: Scalar) -> tuple[Any, optax.OptState]:
    """Take one player's optimiser step; returns its new parameters and the optimiser's new state."""
    return stepped(optimizer("adam", step_size), getattr(state, name), state.opt[name], g)


DDPG = Agent("ddpg", PRESETS, check, init, prepare, iterate, actor, deployed=actor)
