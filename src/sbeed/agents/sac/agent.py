"""SAC: twin critics, a tanh Gaussian policy and a temperature, one step of each on a batch of transitions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import Agent
from sbeed.agents.sac import equations
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.sac.learner import Learner, actor, check, init, prepare
from sbeed.agents.sac.presets import PRESETS
from sbeed.agents.shared.steps import follow, optimizer, stepped
from sbeed.data.replay import Replay, sample
from sbeed.models.critics import Critic
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key, Scalar, Transition

Metrics = dict[str, Array]


def iterate(config: SACConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> tuple[Learner, Metrics]:
    """`updates_per_iteration` updates in one program; metrics are means."""

    def one(state: Learner, k: Key) -> tuple[Learner, Metrics]:
        k_batch, k_update = jax.random.split(k)
        batch = jax.tree.map(lambda x: x[:, 0], sample(replay, k_batch, config.batch_size, 1))
        return update(config, spec, state, batch, k_update)

    state, metrics = jax.lax.scan(one, state, jax.random.split(key, config.updates_per_iteration))
    return state._replace(iteration=state.iteration + 1), jax.tree.map(jnp.mean, metrics)


def update(config: SACConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key) -> tuple[Learner, Metrics]:
    """One step of each player on transitions [B, ...]: the critics first, pi against them, then lam."""
    k_next, k_now = jax.random.split(key)
    state, of_Q = step_Q(config, state, batch, k_next)
    state, log_pi, of_pi = step_pi(config, state, batch.obs, k_now)
    return step_lam(config, spec, state, log_pi), of_Q | of_pi | {"lam_now": jnp.exp(state.log_lam)}


def step_Q(config: SACConfig, state: Learner, batch: Transition, key: Key) -> tuple[Learner, Metrics]:
    """Step the critics towards the slow copies' soft value of the next state; then update the copies."""
    q_next, log_pi_next = _at_a_draw(state.Q_slow, state.pi, batch.next_obs, key)
    v_next = equations.soft_value(q_next, log_pi_next, lam=jnp.exp(state.log_lam))
    target = equations.Q_target(batch.reward, v_next, batch.terminated, gamma=config.gamma)

    def loss(Q: Critic) -> tuple[Array, Array]:
        q = Q(batch.obs, state.pi.squash(batch.action))
        return equations.Q_loss(q, target), q

    (_, q), g = eqx.filter_value_and_grad(loss, has_aux=True)(state.Q)
    Q, opt = _step(state, "Q", g, config.Q_step_size)
    metrics = {
        "Q": jnp.mean(q),
        "Q_largest": jnp.max(jnp.abs(q)),
        "Q_error": jnp.mean((target - q) ** 2),
        "reward_largest": jnp.max(jnp.abs(batch.reward)),
    }
    return state._replace(Q=Q, Q_slow=follow(state.Q_slow, Q, config.slow_rate), opt={**state.opt, "Q": opt}), metrics


def step_pi(config: SACConfig, state: Learner, obs: Array, key: Key) -> tuple[Learner, Array, Metrics]:
    """Step pi up the critics' gradient; also returns log pi of the actions drawn for it."""

    def loss(pi: Policy) -> tuple[Array, Array]:
        q, log_pi = _at_a_draw(state.Q, pi, obs, key)
        return equations.pi_loss(q, log_pi, lam=jnp.exp(state.log_lam)), log_pi

    (_, log_pi), g = eqx.filter_value_and_grad(loss, has_aux=True)(state.pi)
    pi, opt = _step(state, "pi", g, config.pi_step_size)
    return state._replace(pi=pi, opt={**state.opt, "pi": opt}), log_pi, {"entropy": -jnp.mean(log_pi)}


def step_lam(config: SACConfig, spec: EnvSpec, state: Learner, log_pi: Array) -> Learner:
    """Step lam towards the entropy target."""
    g = equations.log_lam_gradient(log_pi, entropy_target=config.entropy_target * spec.action_size)
    log_lam, opt = _step(state, "log_lam", g, config.lam_step_size)
    return state._replace(log_lam=log_lam, opt={**state.opt, "log_lam": opt})


def _at_a_draw(Q: Critic, pi: Policy, obs: Array, key: Key) -> tuple[Array, Array]:
    """The critics' values of an action of pi, and its log pi, both differentiable in pi.   [twins, B], [B]"""
    raw, log_pi = pi.sample(obs, key)
    return Q(obs, pi.squash(raw)), log_pi


def _step(state: Learner, name: str, g: Any, step_size: Scalar) -> tuple[Any, optax.OptState]:
    """Take one player's optimiser step; returns its new parameters and the optimiser's new state."""
    return stepped(optimizer("adam", step_size), getattr(state, name), state.opt[name], g)


SAC = Agent("sac", PRESETS, check, init, prepare, iterate, actor, deployed=actor)
