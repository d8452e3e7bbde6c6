"""The state that learning changes, and how it is initialised."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import traced_floats
from sbeed.agents.knobs import check_ranges
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.shared.policies import make_policy
from sbeed.agents.shared.steps import optimizer
from sbeed.data.replay import Replay
from sbeed.models.critics import Critic
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key

traced_floats(SACConfig)


class Learner(NamedTuple):
    """All that learning changes."""

    pi: Policy
    Q: Critic
    Q_slow: Critic
    log_lam: Array
    opt: dict[str, optax.OptState]
    iteration: Array


def check(config: SACConfig, spec: EnvSpec) -> None:
    """Raise a one-line ValueError for a config that cannot run on this environment."""
    check_ranges(config)
    if spec.action_kind != "box":
        raise ValueError(f"env: SAC needs a box of actions, those of {spec.name} are discrete")
    if config.steps_per_iteration > config.replay_capacity:
        raise ValueError(f"steps_per_iteration: must not exceed the replay, got {config.steps_per_iteration}")


def init(config: SACConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_Q = jax.random.split(key)
    pi = make_policy(
        spec, k_pi, kind="mlp", squash=True, hidden=config.hidden, activation="relu", features=0, initial_std=1.0
    )
    Q = Critic(spec, hidden=config.hidden, activation="relu", twins=2, key=k_Q)
    log_lam = jnp.log(jnp.asarray(config.lam, jnp.float32))
    each = {"pi": pi, "Q": Q, "log_lam": log_lam}
    opt = {name: optimizer("adam", 0.0).init(eqx.filter(p, eqx.is_array)) for name, p in each.items()}
    return Learner(pi, Q, Q, log_lam, opt, jnp.zeros((), jnp.int32))


def prepare(config: SACConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    """Return the state unchanged: SAC needs nothing from the warm-up's data."""
    return state


def actor(config: SACConfig, state: Learner) -> Policy:
    """The policy that collects data; its mode is evaluated and predicts."""
    return state.pi
