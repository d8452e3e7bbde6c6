"""SBEED with a structured dual: rho(s, a) = Q(s, a) - lam log pi(a|s).

At the dual optimum rho*(s, a) = r + gamma E V(s') - lam log pi(a|s), and log pi is known: what is left to learn is Q, a
soft action value. One update evaluates every network once per state of a segment, then calls the equations on arrays.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.sbeed import equations
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.data.replay import Replay, sample
from sbeed.models.nets import MLP
from sbeed.models.policies import Policy, TanhGaussian
from sbeed.types import Array, EnvSpec, Key, Transition


class Learner(NamedTuple):
    """Everything that learning changes."""

    pi: Policy
    V: MLP
    V_slow: MLP
    Q: MLP  # two of them, stacked: every array has a leading axis of 2
    log_lam: Array
    opt: dict[str, optax.OptState]


def init(config: SBEEDConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_V, k_Q = jax.random.split(key, 3)
    hidden = (config.width, config.width)
    pi = TanhGaussian(MLP((spec.observation_size, *hidden, 2 * spec.action_size), key=k_pi, last_scale=0.01))
    V = MLP((spec.observation_size, *hidden, 1), key=k_V, layer_norm=config.layer_norm)

    def make_Q(k: Key) -> MLP:
        return MLP((spec.observation_size + spec.action_size, *hidden, 1), key=k, layer_norm=config.layer_norm)

    Q = jax.vmap(make_Q)(jax.random.split(k_Q))
    log_lam = jnp.log(jnp.asarray(config.lam, jnp.float32))
    players = {"pi": pi, "V": V, "Q": Q, "log_lam": log_lam}
    return Learner(pi, V, V, Q, log_lam, {name: _adam(0.0).init(p) for name, p in players.items()})


def _adam(step_size: float | Array) -> optax.GradientTransformation:
    return optax.adam(step_size)


def value(V: MLP, obs: Array) -> Array:
    return V(obs)[..., 0]


def action_values(Q: MLP, obs: Array, action: Array) -> Array:
    """Both critics.   [2, ...]"""
    x = jnp.concatenate([obs, action], axis=-1)
    return jax.vmap(lambda q: q(x)[..., 0])(Q)


def update(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, key: Key
) -> tuple[Learner, dict[str, Array]]:
    """One step of each player on a batch of segments [B, L, ...]."""
    lam = jnp.exp(state.log_lam)
    first = jax.tree.map(lambda x: x[:, 0], batch)
    k_V, k_pi = jax.random.split(key)

    # --- dual: Q regresses on the target less its -lam log pi(a_0|s_0), which rho carries in closed form
    v_next_slow = value(state.V_slow, batch.next_obs)
    log_pi = state.pi.log_prob(batch.obs, batch.action)
    later = _later_log_pi(config, spec, state, batch, log_pi, v_next_slow, lam)
    target = equations.delta_trace(
        batch.reward, later, v_next_slow, batch.terminated, batch.last, gamma=config.gamma, lam=lam, trace=config.trace
    )[:, 0]
    action = state.pi.squash(first.action)

    def Q_loss(Q: MLP) -> tuple[Array, Array]:
        q = action_values(Q, first.obs, action)
        return jnp.sum(jax.vmap(lambda one: equations.dual_loss(target, one))(q)), q

    (dual_loss, q), g_Q = eqx.filter_value_and_grad(Q_loss, has_aux=True)(state.Q)

    # --- primal V: L_eta on replayed actions and the same with actions of pi, whose rho needs no target
    drawn, log_pi_drawn = state.pi.sample(first.obs, k_V)
    rho_drawn = action_values(state.Q, first.obs, state.pi.squash(drawn)).min(0) - lam * log_pi_drawn
    rho = q.min(0) - lam * log_pi[:, 0]

    def V_loss(V: MLP) -> tuple[Array, Array]:
        v = value(V, first.obs)
        on_policy = equations.mean((jax.lax.stop_gradient(rho_drawn) - v) ** 2)
        if not config.replay_loss:
            return on_policy, v
        mixed = config.kappa * value(V, batch.next_obs) + (1 - config.kappa) * v_next_slow
        delta = equations.delta_trace(
            batch.reward, later, mixed, batch.terminated, batch.last, gamma=config.gamma, lam=lam, trace=config.trace
        )[:, 0]
        delta = delta - lam * log_pi[:, 0]
        # rho = V + nu with nu held: the same gradient at the dual optimum, without the noise of delta - rho.
        moving_rho = equations.rho_from_nu(jax.lax.stop_gradient(rho - v), v)
        on_replay = equations.L_eta(delta, v, moving_rho, eta=config.eta)
        return config.replay_share * on_replay + (1 - config.replay_share) * on_policy, v

    (_, v), g_V = eqx.filter_value_and_grad(V_loss, has_aux=True)(state.V)

    # --- primal pi: pathwise, through the critic
    def pi_loss(pi: Policy) -> tuple[Array, Array]:
        raw, log_p = pi.sample(first.obs, k_pi)
        soft = action_values(state.Q, first.obs, pi.squash(raw)).min(0) - lam * log_p
        return -jnp.mean(soft), log_p

    (_, log_p), g_pi = eqx.filter_value_and_grad(pi_loss, has_aux=True)(state.pi)

    # --- lam: up when the entropy is under its target
    entropy = -jnp.mean(log_p)
    g_lam = entropy - config.entropy_target * spec.action_size

    opt = dict(state.opt)
    players = {}
    for name, g, step_size in (
        ("pi", g_pi, config.pi_step_size),
        ("V", g_V, config.V_step_size),
        ("Q", g_Q, config.dual_step_size),
        ("log_lam", g_lam if config.adapt_lam else jnp.zeros_like(g_lam), config.lam_step_size),
    ):
        change, opt[name] = _adam(step_size).update(g, opt[name])
        players[name] = eqx.apply_updates(getattr(state, name), change)
    V_slow = jax.tree.map(lambda slow, new: slow + config.slow_rate * (new - slow), state.V_slow, players["V"])
    metrics = {
        "dual_loss": dual_loss / 2,
        "V": jnp.mean(v),
        "V_error": jnp.mean((rho_drawn - v) ** 2),
        "consistency": jnp.mean((rho - v) ** 2),
        "entropy": entropy,
        "lam": lam,
    }
    return Learner(players["pi"], players["V"], V_slow, players["Q"], players["log_lam"], opt), metrics


def _later_log_pi(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, batch: Transition, log_pi: Array, v_next_slow: Array, lam: Array
) -> Array:
    """What the later actions of a window count for log pi; 0 for the first, whose log pi rho carries.   [B, L]

    At the optimum log pi = (Q - V) / lam. `dual_log_pi` mixes that in: then r + gamma V(s') - Q(s, a) is what passes
    along the trace, a correction for off-policy actions without importance weights.
    """
    bound = config.log_pi_clip * spec.action_size
    clipped = jnp.clip(log_pi, -bound, bound)
    v_slow = jnp.roll(v_next_slow, 1, axis=1)  # V of the state that the step before reached
    q = action_values(state.Q, batch.obs, state.pi.squash(batch.action)).mean(0)
    later = (1 - config.dual_log_pi) * clipped + config.dual_log_pi * (q - v_slow) / lam
    return later.at[:, 0].set(0)


def iterate(
    config: SBEEDConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key
) -> tuple[Learner, dict[str, Array]]:
    """`updates_per_iteration` updates in one program; metrics are their means."""

    def one(state: Learner, k: Key) -> tuple[Learner, dict[str, Array]]:
        k_batch, k_update = jax.random.split(k)
        batch = sample(replay, k_batch, config.batch_size, config.segment_length)
        return update(config, spec, state, batch, k_update)

    state, metrics = jax.lax.scan(one, state, jax.random.split(key, config.updates_per_iteration))
    return state, jax.tree.map(jnp.mean, metrics)
