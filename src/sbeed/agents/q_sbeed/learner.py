"""The state that learning changes: check the config, initialise the state, prepare it from the warm-up's data."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import traced_floats
from sbeed.agents.knobs import check_ranges
from sbeed.agents.q_sbeed import dual as duals
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.q_sbeed.policy import PolicyOfQ
from sbeed.agents.shared import running_scales as scales
from sbeed.agents.shared.policies import cloned, make_policy
from sbeed.agents.shared.running_scales import Scales
from sbeed.data.replay import Replay, sample
from sbeed.models.policies import Categorical, Policy
from sbeed.models.q_net import ActionValues
from sbeed.types import Array, EnvSpec, Key, Scalar

traced_floats(QConfig)


class Learner(NamedTuple):
    """All that learning changes."""

    Q: ActionValues
    Q_slow: ActionValues | None
    dual: duals.Dual | None
    pi: Policy | None  # the sampler of pi_Q; None where actions are discrete, and pi_Q is read off Q
    prior: Policy | None  # the clone that entropy is relative to, if it is
    averaged: Policy  # the Polyak average of the policy, for evaluation
    log_lam: Array
    largest_reward: Array  # of all batches, in absolute value: it bounds V
    products: Array  # running <b, b>, <b, g>, <g, g> of L_eta's gradient g and its backward half b: [3]
    lowered: Array  # running share of updates that lowered L_eta on a held-out batch
    scales: Scales
    opt: dict[str, optax.OptState]
    iteration: Array


def check(config: QConfig, spec: EnvSpec) -> None:
    """Raise a one-line ValueError for a config that cannot run on this environment."""
    check_ranges(config)
    rules = (
        ("k", config.k <= min(config.replay_capacity, config.warmup), "must not exceed warmup and replay_capacity"),
        ("batch_size", config.batch_size % config.k == 0, f"must be a multiple of k, {config.k}"),
        ("eta", config.dual != "none" or config.eta == 0, "must be 0 when dual is none"),
        ("steps_per_iteration", config.steps_per_iteration <= config.replay_capacity, "must not exceed the replay"),
        (
            "updates_per_iteration",
            config.updates_per_iteration % config.pi_every == 0,
            f"must be a multiple of pi_every, {config.pi_every}",
        ),
    )
    for name, holds, complaint in rules:
        if not holds:
            raise ValueError(f"{name}: {complaint}, got {getattr(config, name)}")


def init(config: QConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_Q, k_dual = jax.random.split(key, 3)
    q = ActionValues(spec, hidden=config.hidden, norm=config.norm, twins=config.twins, key=k_Q)
    dual = duals.init(config, spec, k_dual)
    actor = _network_policy(config, spec, k_pi)
    pi = actor if spec.action_kind == "box" else None
    prior = actor if config.prior == "behaviour" else None
    log_lam = jnp.log(jnp.asarray(config.lam, jnp.float32))
    each = {"Q": q, "dual": dual, "pi": pi, "log_lam": log_lam}
    opt = {name: optax.adam(0.0).init(eqx.filter(player, eqx.is_array)) for name, player in each.items()}
    zero = jnp.zeros((), jnp.float32)
    return Learner(
        Q=q,
        Q_slow=q if config.slow_copy else None,
        dual=dual,
        pi=pi,
        prior=prior,
        averaged=pi if pi is not None else policy_of(q, log_lam, prior),
        log_lam=log_lam,
        largest_reward=zero,
        products=jnp.zeros(3, jnp.float32),
        lowered=zero + 0.5,
        scales=scales.init(spec.observation_size),
        opt=opt,
        iteration=jnp.zeros((), jnp.int32),
    )


def _network_policy(config: QConfig, spec: EnvSpec, key: Key) -> Policy:
    return make_policy(
        spec, key, kind="mlp", squash=True, hidden=config.hidden, activation="relu", features=0, initial_std=1.0
    )


def policy_of(q: ActionValues, log_lam: Array, prior: Policy | None) -> PolicyOfQ:
    assert prior is None or isinstance(prior, Categorical)
    return PolicyOfQ(q, log_lam, prior)


def prepare(config: QConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    """Set the normalisers' statistics and fit the clone of the behaviour policy, once, from the first data.

    pi starts as the clone, if there is one.
    """
    batch = jax.tree.map(lambda x: x[:, 0], sample(replay, key, 4096, 1))
    state = state._replace(scales=scales.begin(config, state.scales, batch.obs, replay))
    if state.prior is None:
        return state

    def draw(k: Key) -> tuple[Array, Array]:
        batch = scales.scaled(config, scales_in_use(config, state), sample(replay, k, config.batch_size, 1))
        return batch.obs, batch.action

    clone = cloned(state.prior, draw, key, steps=config.clone_steps, step_size=config.Q_step_size)
    state = state._replace(prior=clone, pi=None if state.pi is None else clone)
    return state._replace(averaged=policy(state))


def policy(state: Learner) -> Policy:
    """The policy being learned, on normalised observations."""
    return state.pi if state.pi is not None else policy_of(state.Q, state.log_lam, state.prior)


def actor(config: QConfig, state: Learner) -> Policy:
    """The policy that collects."""
    return scales.acting(config, scales_in_use(config, state), policy(state))


def deployed(config: QConfig, state: Learner) -> Policy:
    """The policy that is evaluated, saved and predicts: the average."""
    return scales.acting(config, scales_in_use(config, state), state.averaged)


def scales_in_use(config: QConfig, state: Learner) -> Scales:
    """The running scales, but that no observation is divided by less than least_std."""
    return state.scales._replace(observations=state.scales.observations.at_least(config.least_std))


def most_entropy(config: QConfig, spec: EnvSpec) -> Scalar:
    """A bound on |H(pi(.|s))|; for a Gaussian, which has none, the range that it is meant to stay in."""
    if spec.action_kind == "discrete":
        return jnp.log(spec.action_size)
    return spec.action_size * jnp.maximum(jnp.log(2.0), jnp.abs(config.entropy_target))


def entropy_target(config: QConfig, spec: EnvSpec) -> Scalar:
    return config.entropy_target * (spec.action_size if spec.action_kind == "box" else jnp.log(spec.action_size))
