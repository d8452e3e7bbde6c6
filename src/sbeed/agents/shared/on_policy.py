"""Rounds of data of the policy itself, in arrays as long as the ring: code that on-policy agents share."""

from typing import Any

import numpy as np

from sbeed.agents.knobs import check_ranges
from sbeed.agents.shared import running_scales
from sbeed.agents.shared.on_policy_config import RoundConfig
from sbeed.agents.shared.policies import make_policy, with_bandwidth
from sbeed.agents.shared.running_scales import Scales
from sbeed.data.replay import Replay, held, newest
from sbeed.models.features import median_bandwidth
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key

TRAJECTORIES = 52
CHUNK = 200  # steps between two checks of how many trajectories have ended: a round may exceed its trajectories by this
# Largest step of pi in the paper's comparison, one cap for all agents as in the paper. How it was chosen:
# docs/log/one_step_for_all.md
STEP: dict[str, Any] = {"kl_radius": 0.05, "fisher_ridge": 0.1}


def paper_setting(spec: EnvSpec) -> dict[str, Any]:
    """Settings of on-policy agents in the SBEED paper's comparison: SBEED's policy, rounds of whole trajectories."""
    return dict(
        gamma=0.995,
        policy="rbf",
        features=500 if spec.name.startswith("HalfCheetah") else 100,
        V="linear",
        steps_per_iteration=CHUNK,
        trajectories_per_iteration=TRAJECTORIES,
        replay_capacity=capacity_for_trajectories(spec),
        **STEP,
    )


def capacity_for_trajectories(spec: EnvSpec) -> int:
    return TRAJECTORIES * (spec.time_limit or 1_000) + CHUNK


def check(config: RoundConfig, spec: EnvSpec) -> None:
    """Raise a one-line ValueError for a config that cannot run on this environment."""
    check_ranges(config)
    steps, capacity = config.steps_per_iteration, config.replay_capacity
    if steps > capacity:
        raise ValueError(f"steps_per_iteration: must not exceed replay_capacity, {capacity}, got {steps}")


def new_policy(config: RoundConfig, spec: EnvSpec, key: Key) -> Policy:
    return make_policy(
        spec,
        key,
        kind=config.policy,
        squash=False,
        hidden=config.hidden,
        activation=config.activation,
        features=config.features,
        initial_std=config.initial_std,
        orthogonal=True,  # from uniform weights TRPO gets two thirds as far on Hopper (docs/log/trpo_beside_sb3.md)
    )


def begin(
    config: RoundConfig, known: Scales, models: tuple[Any, ...], replay: Replay
) -> tuple[Scales, tuple[Any, ...]]:
    """Set the normalisers' first statistics and the bandwidths of random features, once, from the first round."""
    known = running_scales.observe(config, known, replay)
    states = spread(running_scales.scaled(config, known, newest(replay, replay.capacity)).obs, replay.size)
    width = median_bandwidth(states)
    return known, tuple(with_bandwidth(model, width) for model in models)


def counted(replay: Replay) -> Array:
    """True for the rows of the ring that belong to the round; a shorter round has padding before them.   [N]"""
    return held(replay, replay.capacity)


def spread(rows: Array, size: Array) -> Array:
    """Repeat the last `size` rows, equally often give or take one, to an array of the same length.

    The Fisher matrix is over states without weights.   [N, ...] -> [N, ...]
    """
    length = len(rows)
    return rows[length - size + np.arange(length) % size]


def end(config: RoundConfig, old: Scales, models: tuple[Any, ...], replay: Replay) -> tuple[Scales, tuple[Any, ...]]:
    """Update the scales by the round, after its updates: until then they are those that the acting policy used.

    The models are carried over, so that their outputs stay the same.
    """
    moved = running_scales.observe(config, old, replay)
    return moved, tuple(running_scales.carried(config, old, moved, (model,), replay)[0] for model in models)
