"""The config class of each agent and preset, without jax, so that the command line can check flags before loading it.

A preset that is not listed here has the form of `default`.
"""

from collections.abc import Iterable
from typing import get_type_hints

from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.trpo.config import TRPOConfig

FORMS: dict[str, dict[str, type]] = {
    "sbeed": {"default": QConfig, "paper": SBEEDConfig, "paper-exact": SBEEDConfig, "paper-on-policy": SBEEDConfig},
    "pcl": {"default": SBEEDConfig},
    "trpo": {"default": TRPOConfig},
    "dual_ac": {"default": DualACConfig},
    "ddpg": {"default": DDPGConfig},
    "sac": {"default": SACConfig},
}
# sbeed 0.1 had another learner for `default` and `offline`. All configs of its sbeed and pcl had these fields.
FORMER_AGENTS = ("sbeed", "pcl")
FORMER_FIELDS = frozenset(
    ("V_actions", "replay_share", "pi_gradient", "dual_log_pi", "log_pi_clip", "long_percent", "layer_norm")
) | {"pi_slow_rate"}
FORMER = "sbeed 0.1, whose sbeed and pcl are no longer there: train again with this version, or predict with sbeed 0.1"


def config_of(agent: str, preset: str) -> type:
    """The class of that agent's config; an unknown preset is not an error here."""
    forms = FORMS[agent]
    return forms.get(preset, forms["default"])


def check_names(agent: str, preset: str, names: Iterable[str]) -> None:
    """Raise a ValueError for a field that only another form of the agent has, or that was removed."""
    known = get_type_hints(config_of(agent, preset))
    missing = [name for name in names if name not in known]
    for name in missing:
        if name in FORMER_FIELDS and agent in FORMER_AGENTS:
            raise ValueError(f"{name}: is a setting of {FORMER}")
    for name in missing:
        others = [preset for preset, form in FORMS[agent].items() if name in get_type_hints(form)]
        if others:
            raise ValueError(
                f"{name}: the form of preset {preset or 'default'} has no such field; that of {', '.join(others)} has"
            )
