"""The state that learning changes, and how it is initialised."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.base import traced_floats
from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.knobs import check_ranges
from sbeed.agents.shared import running_scales
from sbeed.agents.shared.policies import make_policy, with_bandwidth
from sbeed.agents.shared.running_scales import Scales
from sbeed.agents.shared.steps import optimizer
from sbeed.data.replay import Replay, sample
from sbeed.models.critics import Critic
from sbeed.models.features import median_bandwidth
from sbeed.models.policies import Gaussian, LinearGaussian, NoisyMean, Policy
from sbeed.types import Array, EnvSpec, Key

traced_floats(DDPGConfig)


class Learner(NamedTuple):
    """All that learning changes. The policies use only their means, through tanh: see `noisy`."""

    pi: Gaussian | LinearGaussian
    pi_slow: Gaussian | LinearGaussian
    Q: Critic
    Q_slow: Critic
    scales: Scales
    opt: dict[str, optax.OptState]
    iteration: Array


def check(config: DDPGConfig, spec: EnvSpec) -> None:
    """Raise a one-line ValueError for a config that cannot run on this environment."""
    check_ranges(config)
    if spec.action_kind != "box":
        raise ValueError(f"env: DDPG needs a box of actions, those of {spec.name} are discrete")
    if config.steps_per_iteration > config.replay_capacity:
        raise ValueError(f"steps_per_iteration: must not exceed the replay, got {config.steps_per_iteration}")


def init(config: DDPGConfig, spec: EnvSpec, key: Key) -> Learner:
    k_pi, k_Q = jax.random.split(key)
    pi = make_policy(
        spec,
        k_pi,
        kind=config.policy,
        squash=False,
        hidden=config.hidden,
        activation=config.activation,
        features=config.features,
        initial_std=1.0,
    )
    assert isinstance(pi, Gaussian | LinearGaussian)
    # Adam's steps of pi have one length however small dQ/da is: a new critic's errors would drive tanh to its ends,
    # where the gradient vanishes.
    Q = Critic(spec, hidden=config.hidden, activation=config.activation, twins=1, key=k_Q, last_scale=0.01)
    each = {"pi": pi, "Q": Q}
    opt = {name: optimizer("adam", 0.0).init(eqx.filter(p, eqx.is_array)) for name, p in each.items()}
    return Learner(pi, pi, Q, Q, running_scales.init(spec.observation_size), opt, jnp.zeros((), jnp.int32))


def prepare(config: DDPGConfig, spec: EnvSpec, state: Learner, replay: Replay, key: Key) -> Learner:
    """Set the normalisers' first statistics and the bandwidth of random features, once, from the warm-up's data."""
    batch = jax.tree.map(lambda x: x[:, 0], sample(replay, key, 4096, 1))
    state = state._replace(scales=running_scales.begin(config, state.scales, batch.obs, replay))
    pi = with_bandwidth(state.pi, median_bandwidth(running_scales.scaled(config, state.scales, batch).obs))
    return state._replace(pi=pi, pi_slow=pi)


def noisy(config: DDPGConfig, pi: Gaussian | LinearGaussian) -> NoisyMean:
    """Add exploration noise to the deterministic policy, which is the mode of the result."""
    return NoisyMean(pi, config.noise_std, config.noise_theta)


def actor(config: DDPGConfig, state: Learner) -> Policy:
    """The policy that collects data; its mode is evaluated and predicts."""
    return running_scales.acting(config, state.scales, noisy(config, state.pi))
