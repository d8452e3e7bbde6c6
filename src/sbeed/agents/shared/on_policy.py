"""A round of data of the policy itself, in arrays as long as the ring: what on-policy agents share."""

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
CHUNK = 200  # steps between two looks at how many trajectories have ended: a round has up to so many more
# How far pi may go in a round of the paper's comparison. One cap for all, as there all have one step size; which one:
# docs/log/one_step_for_all.md
STEP: dict[str, Any] = {"kl_radius": 0.05, "fisher_ridge": 0.1}


def paper_setting(spec: EnvSpec) -> dict[str, Any]:
    """What the SBEED paper's comparison gives every such agent: SBEED's own policy, in rounds of whole trajectories."""
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
    """A ValueError in one line for a config that cannot run on this environment."""
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
    """Once, with the first round: the normalisers' first statistics and the bandwidths of random features."""
    known = running_scales.observe(config, known, replay)
    states = spread(running_scales.scaled(config, known, newest(replay, replay.capacity)).obs, replay.size)
    width = median_bandwidth(states)
    return known, tuple(with_bandwidth(model, width) for model in models)


def counted(replay: Replay) -> Array:
    """Which rows of the ring are the round's own. Where it is shorter, what stands in comes first.   [N]"""
    return held(replay, replay.capacity)


def spread(rows: Array, size: Array) -> Array:
    """The last `size` rows, each as often as the others, give or take one, in an array of the same length.

    The Fisher matrix is over states without weights.   [N, ...] -> [N, ...]
    """
    length = len(rows)
    return rows[length - size + np.arange(length) % size]


def end(config: RoundConfig, old: Scales, models: tuple[Any, ...], replay: Replay) -> tuple[Scales, tuple[Any, ...]]:
    """The scales take the round in, last: the round's policy is the one that acted in it. The models say on them what
    they said before.
    """
    moved = running_scales.observe(config, old, replay)
    return moved, tuple(running_scales.carried(config, old, moved, (model,), replay)[0] for model in models)
