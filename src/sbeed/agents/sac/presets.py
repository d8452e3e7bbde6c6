"""The preset."""

from collections.abc import Callable

from sbeed.agents.sac.config import SACConfig
from sbeed.types import EnvSpec


def default(spec: EnvSpec) -> SACConfig:
    """One setting for every box of actions; only gamma may need to differ by task."""
    return SACConfig()


PRESETS: dict[str, Callable[[EnvSpec], SACConfig]] = {"default": default}
