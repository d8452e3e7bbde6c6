"""The presets: the setting of the SBEED paper's comparison, and those we recommend."""

from collections.abc import Callable
from dataclasses import replace

from sbeed.agents.shared.on_policy import paper_setting
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.types import EnvSpec


def default(spec: EnvSpec) -> TRPOConfig:
    return TRPOConfig()


def npg(spec: EnvSpec) -> TRPOConfig:
    """The natural policy gradient: the same step without a line search."""
    return replace(default(spec), line_search=False)


def paper(spec: EnvSpec) -> TRPOConfig:
    """The setting of the SBEED paper's comparison: SBEED's own policy there, in rounds of whole trajectories."""
    return TRPOConfig(gae_lambda=0.97, **paper_setting(spec))


PRESETS: dict[str, Callable[[EnvSpec], TRPOConfig]] = {"default": default, "paper": paper, "npg": npg}
