"""Running scales of observations and rewards, estimated from the data that the agent has seen."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from sbeed.data.replay import Replay, held, newest
from sbeed.models.features import FourierFeatures
from sbeed.models.normalize import Normalizer, ReturnScale
from sbeed.models.policies import Normalized, Policy
from sbeed.ops.linalg import ridge_solve
from sbeed.types import Array, Transition

# A config with normalize_observations, normalize_rewards, gamma, on_policy, steps_per_iteration, warmup and
# replay_capacity.
Config = Any
STATES = 4096  # enough states to determine a policy's outputs


class Scales(NamedTuple):
    observations: Normalizer
    returns: ReturnScale


def init(observation_size: int) -> Scales:
    return Scales(Normalizer(observation_size), ReturnScale())


def begin(config: Config, scales: Scales, obs: Array, replay: Replay) -> Scales:
    """Set the first statistics from the first data.   obs: of the warm-up, [N, n]"""
    if config.on_policy:
        return observe(config, scales, replay)
    if config.normalize_observations:
        scales = scales._replace(observations=scales.observations.update(obs))
    if config.normalize_rewards:
        path = newest(replay, min(config.warmup, config.replay_capacity))
        scales = scales._replace(returns=scales.returns.update(path.reward, path.last, config.gamma))
    return scales


def observe(config: Config, scales: Scales, replay: Replay) -> Scales:
    """Update the scales by the newest round; from a dataset there are no new steps.

    An on-policy replay holds that round alone.
    """
    if not config.steps_per_iteration or not (config.normalize_observations or config.normalize_rewards):
        return scales
    rows = config.replay_capacity if config.on_policy else config.steps_per_iteration
    fresh, there = newest(replay, rows), held(replay, rows) if config.on_policy else None
    if config.normalize_observations:
        scales = scales._replace(observations=scales.observations.update(fresh.obs, there))
    if config.normalize_rewards:
        scales = scales._replace(returns=scales.returns.update(fresh.reward, fresh.last, config.gamma, there))
    return scales


def carried(config: Config, old: Scales, new: Scales, models: tuple[Any, ...], replay: Replay) -> tuple[Any, ...]:
    """Refit the models to the new scales so that their outputs stay the same; they share their random features.

    A new scale changes the features and so the policy, outside the cap on its steps, and a sharp pi most. Least squares
    over the newest states give weights with which the new features reproduce the old outputs. Networks do not change.
    """
    features = getattr(models[0], "features", None)
    if not config.normalize_observations or not isinstance(features, FourierFeatures):
        return models
    number = min(config.replay_capacity, STATES)
    obs, there = newest(replay, number).obs, held(replay, number)
    before, after = (there[:, None] * features(scales.observations(obs)) for scales in (old, new))
    gram = jnp.matmul(after.T, after, precision="highest")

    def carry(model: Any) -> Any:
        missing = jnp.matmul(after.T, (before - after) @ model.weights, precision="highest")
        return eqx.tree_at(lambda m: m.weights, model, model.weights + ridge_solve(gram, missing, 1e-4))

    return tuple(carry(model) for model in models)


def scaled(config: Config, scales: Scales, batch: Transition) -> Transition:
    """Apply the scales to a batch."""
    if config.normalize_observations:
        batch = batch._replace(obs=scales.observations(batch.obs), next_obs=scales.observations(batch.next_obs))
    if config.normalize_rewards:
        batch = batch._replace(reward=batch.reward / scales.returns.scale)
    return batch


def acting(config: Config, scales: Scales, pi: Policy) -> Policy:
    """Wrap pi so that it takes observations as the environment gives them."""
    return Normalized(pi, scales.observations) if config.normalize_observations else pi
