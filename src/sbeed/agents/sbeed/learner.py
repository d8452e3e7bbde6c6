"""The state that learning changes: check the config, initialise the state, prepare it from the warm-up's data."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import traced_floats
from sbeed.agents.knobs import check_ranges
from sbeed.agents.sbeed import dual as duals
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.shared import running_scales, steps
from sbeed.agents.shared.policies import encoded, make_policy, with_bandwidth
from sbeed.agents.shared.running_scales import Scales
from sbeed.data.replay import Replay, sample
from sbeed.models.features import median_bandwidth
from sbeed.models.nets import MLP
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key, Scalar

traced_floats(SBEEDConfig)


class Learner(NamedTuple):
    """All that learning changes."""

    pi: Policy
    V: MLP
    V_slow: MLP
    prior: Policy | None  # the lagged copy of pi that its entropy is relative to, if it is
    dual: duals.Dual | None
    log_lam: Array
    largest_reward: Array  # of all batches, in absolute value: it bounds V
    scales: Scales
    opt: dict[str, optax.OptState]
    iteration: Array


def check(config: SBEEDConfig, spec: EnvSpec) -> None:
    """Raise a one-line ValueError for a config that cannot run on this environment."""
    check_ranges(config)
    rules = (
        ("k", config.k <= config.replay_capacity, f"must not exceed the replay's {config.replay_capacity}"),
        ("k", config.k <= config.length, f"must not exceed segment_length, {config.length}"),
        ("replay_capacity", config.length <= config.replay_capacity, f"must hold a segment of {config.length}"),
        ("warmup", config.on_policy or config.length <= config.warmup, f"must cover a segment of {config.length}"),
        ("newest", config.length <= (config.newest or config.length), f"must hold a segment of {config.length}"),
        ("pi_newest", config.length <= (config.pi_newest or config.length), f"must hold a segment of {config.length}"),
        (
            "batch_size",
            not config.all_starts or config.length <= config.batch_size,
            f"must hold {config.length} starts",
        ),
        (
            "steps_per_iteration",
            config.length <= config.steps_per_iteration or not config.on_policy,
            f"must bring {config.length}",
        ),
        ("steps_per_iteration", config.steps_per_iteration <= config.replay_capacity, "must not exceed the replay"),
        ("eta", config.dual != "none" or config.eta == 0, "must be 0 when dual is none"),
        ("adapt_lam", not config.adapt_lam or config.prior == "lagged", "must be off unless prior is lagged"),
        (
            "policy",
            config.policy != "table" or spec.action_kind == "discrete",
            "must not be table for a box of actions",
        ),
    )
    for name, holds, complaint in rules:
        if not holds:
            raise ValueError(f"{name}: {complaint}, got {getattr(config, name)}")


def init(config: SBEEDConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_V, k_dual = jax.random.split(key, 3)
    pi = make_policy(
        spec,
        k_pi,
        kind=config.policy,
        squash=config.squash,
        hidden=config.hidden,
        activation=config.activation,
        features=config.features,
        initial_std=config.initial_std,
    )
    V = MLP((spec.observation_size, *config.hidden, 1), key=k_V, activation=config.activation)
    dual = None if config.dual == "none" else duals.init(config, spec, k_dual)
    log_lam = jnp.log(jnp.asarray(config.lam, jnp.float32))
    each = {"pi": pi, "V": V, "dual": dual, "log_lam": log_lam}
    opt = {name: optimizer(config, 0.0).init(eqx.filter(p, eqx.is_array)) for name, p in each.items()}
    prior = None if config.prior == "uniform" else pi
    zero, rounds = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    return Learner(pi, V, V, prior, dual, log_lam, zero, running_scales.init(spec.observation_size), opt, rounds)


def prepare(config: SBEEDConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    """Set the normalisers' statistics and the bandwidth of random features, once, from the first data."""
    batch = jax.tree.map(lambda x: x[:, 0], sample(replay, key, 4096, 1))
    state = state._replace(scales=running_scales.begin(config, state.scales, batch.obs, replay))
    obs = running_scales.scaled(config, state.scales, batch).obs
    pi = with_bandwidth(state.pi, median_bandwidth(obs))
    state = state._replace(pi=pi, prior=None if state.prior is None else pi)
    if state.dual is None:
        return state
    action = encoded(spec, state.pi, batch.action)
    later = jnp.tile(action, config.k - 1) if config.dual_sees == "all" else None
    return state._replace(dual=duals.with_bandwidth(state.dual, state.dual.inputs(obs, action, later)))


def actor(config: SBEEDConfig, state: Learner) -> Policy:
    """The policy that collects data, is evaluated and predicts: pi with its normaliser."""
    return running_scales.acting(config, state.scales, state.pi)


def optimizer(config: SBEEDConfig, step_size: Scalar) -> optax.GradientTransformation:
    return steps.optimizer(config.optimizer, step_size, config.max_grad_norm)
