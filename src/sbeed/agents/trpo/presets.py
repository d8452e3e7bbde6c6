"""The settings with names: what the SBEED paper compared with, and what we recommend."""

from collections.abc import Callable
from dataclasses import replace

from sbeed.agents.trpo.config import TRPOConfig
from sbeed.types import EnvSpec

TRAJECTORIES = 52
CHUNK = 1_000  # steps between two looks at how many trajectories have ended


def default(spec: EnvSpec) -> TRPOConfig:
    return TRPOConfig()


def npg(spec: EnvSpec) -> TRPOConfig:
    """The natural policy gradient: the same step, taken unseen."""
    return replace(default(spec), line_search=False)


def paper(spec: EnvSpec) -> TRPOConfig:
    """The SBEED paper's comparison: the policy that SBEED has there, in rounds of whole trajectories."""
    return TRPOConfig(
        gamma=0.995,
        gae_lambda=0.97,
        policy="rbf",
        features=500 if spec.name.startswith("HalfCheetah") else 100,
        fisher_ridge=1e-4,  # rounds are long: their gradients bear a step along weak features
        V="linear",
        steps_per_iteration=CHUNK,
        trajectories_per_iteration=TRAJECTORIES,
        # The chunk in which the last trajectory ends is seen after it, and one more goes before the update.
        replay_capacity=TRAJECTORIES * (spec.time_limit or 1_000) + 2 * CHUNK,
    )


PRESETS: dict[str, Callable[[EnvSpec], TRPOConfig]] = {"default": default, "paper": paper, "npg": npg}
