"""The scales on which an agent sees its data: of observations and of rewards, from what it has met so far."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from sbeed.data.replay import Replay, newest
from sbeed.models.normalize import Normalizer, ReturnScale
from sbeed.models.policies import Normalized, Policy
from sbeed.types import Array, Transition

# A config with normalize_observations, normalize_rewards, normalizer_kl, gamma, steps_per_iteration, warmup and
# replay_capacity.
Config = Any


class Scales(NamedTuple):
    observations: Normalizer
    returns: ReturnScale


def init(observation_size: int) -> Scales:
    return Scales(Normalizer(observation_size), ReturnScale())


def begin(config: Config, scales: Scales, obs: Array, replay: Replay) -> Scales:
    """The first statistics, once the warm-up's data are there.   obs: [N, n]"""
    if config.normalize_observations:
        scales = scales._replace(observations=scales.observations.update(obs))
    if config.normalize_rewards:
        path = newest(replay, min(config.warmup, config.replay_capacity))
        scales = scales._replace(returns=scales.returns.update(path.reward, path.last, config.gamma))
    return scales


def observe(config: Config, scales: Scales, pi: Policy, replay: Replay) -> Scales:
    """Take the newest round in."""
    if not (config.normalize_observations or config.normalize_rewards):
        return scales
    fresh = newest(replay, config.steps_per_iteration)
    if config.normalize_observations:
        updated = scales.observations.update(fresh.obs)
        if config.normalizer_kl is not None:
            # Another scale makes another policy, unseen by the cap on its steps: the sharper pi, the more so.
            for _ in range(2):  # KL grows as the square of a step, nearly: the second look corrects the first
                kl = jnp.mean(Normalized(pi, scales.observations).kl(Normalized(pi, updated), fresh.obs))
                share = jnp.sqrt(jnp.minimum(1, config.normalizer_kl / jnp.maximum(kl, 1e-12)))
                updated = scales.observations.towards(updated, share)
        scales = scales._replace(observations=updated)
    if config.normalize_rewards:
        scales = scales._replace(returns=scales.returns.update(fresh.reward, fresh.last, config.gamma))
    return scales


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
