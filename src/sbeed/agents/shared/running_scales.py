"""The scales on which an agent sees its data: of observations and of rewards, from what it has met so far."""

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
STATES = 4096  # that are enough to tell what a policy does


class Scales(NamedTuple):
    observations: Normalizer
    returns: ReturnScale


def init(observation_size: int) -> Scales:
    return Scales(Normalizer(observation_size), ReturnScale())


def begin(config: Config, scales: Scales, obs: Array, replay: Replay) -> Scales:
    """The first statistics, once the first data are there.   obs: of a warm-up, [N, n]"""
    if config.on_policy:
        return observe(config, scales, replay)
    if config.normalize_observations:
        scales = scales._replace(observations=scales.observations.update(obs))
    if config.normalize_rewards:
        path = newest(replay, min(config.warmup, config.replay_capacity))
        scales = scales._replace(returns=scales.returns.update(path.reward, path.last, config.gamma))
    return scales


def observe(config: Config, scales: Scales, replay: Replay) -> Scales:
    """Take the newest round in, if it has any steps: from a dataset there are none.

    Where data are forgotten after a round, it is all there is.
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
    """Models on the new scales that say what they said on the old ones; they share their random features.

    Another scale makes other features and so another policy, behind the back of the cap on its steps: the sharper pi,
    the more so. Least squares over the newest states give the weights with which the new features say nearly the same.
    Networks stay as they are.
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
    """The batch on the agent's own scales."""
    if config.normalize_observations:
        batch = batch._replace(obs=scales.observations(batch.obs), next_obs=scales.observations(batch.next_obs))
    if config.normalize_rewards:
        batch = batch._replace(reward=batch.reward / scales.returns.scale)
    return batch


def acting(config: Config, scales: Scales, pi: Policy) -> Policy:
    """pi on observations as the environment gives them."""
    return Normalized(pi, scales.observations) if config.normalize_observations else pi
