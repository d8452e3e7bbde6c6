"""The presets: the setting of the SBEED paper's comparison, and the one we recommend."""

from collections.abc import Callable

from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.shared.on_policy import paper_setting
from sbeed.types import EnvSpec


def default(spec: EnvSpec) -> DualACConfig:
    return DualACConfig()


def paper(spec: EnvSpec) -> DualACConfig:
    """The setting of the SBEED paper's comparison: SBEED's own policy there, in rounds of whole trajectories."""
    return DualACConfig(**paper_setting(spec))


PRESETS: dict[str, Callable[[EnvSpec], DualACConfig]] = {"default": default, "paper": paper}
