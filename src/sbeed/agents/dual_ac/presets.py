"""The settings with names: what the SBEED paper compared with, and what we recommend."""

from collections.abc import Callable

from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.shared.on_policy import paper_setting
from sbeed.types import EnvSpec


def default(spec: EnvSpec) -> DualACConfig:
    return DualACConfig()


def paper(spec: EnvSpec) -> DualACConfig:
    """The SBEED paper's comparison: the policy that SBEED has there, in rounds of whole trajectories."""
    return DualACConfig(**paper_setting(spec))


PRESETS: dict[str, Callable[[EnvSpec], DualACConfig]] = {"default": default, "paper": paper}
