"""Agents by name, in a closed list: a file or a flag can name one of these and nothing else."""

from collections.abc import Callable, Mapping
from typing import Any

from sbeed.agents.base import Agent, Config
from sbeed.agents.configs import check_names
from sbeed.agents.ddpg.agent import DDPG
from sbeed.agents.dual_ac.agent import DUAL_AC
from sbeed.agents.knobs import with_fields
from sbeed.agents.q_sbeed.agent import Q_FORM
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.sac.agent import SAC
from sbeed.agents.sbeed.agent import PCL, V_PI_FORM
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.trpo.agent import TRPO
from sbeed.types import EnvSpec


def combined(name: str, forms: Mapping[type, Agent]) -> Agent:
    """Merge several forms into one agent with all their presets; the config's type selects the form that runs."""

    def of(part: str) -> Callable[..., Any]:
        return lambda config, *rest: getattr(forms[type(config)], part)(config, *rest)

    presets = {preset: make for form in forms.values() for preset, make in form.presets.items()}
    return Agent(name, presets, *(of(part) for part in Agent._fields[2:]))


SBEED = combined("sbeed", {QConfig: Q_FORM, SBEEDConfig: V_PI_FORM})
AGENTS: dict[str, Agent] = {agent.name: agent for agent in (SBEED, PCL, TRPO, DUAL_AC, DDPG, SAC)}


def find(name: str) -> Agent:
    """The agent of that name; an unknown name is a ValueError that lists the agents."""
    if name not in AGENTS:
        raise ValueError(f"agent: must be one of {', '.join(AGENTS)}, got {name!r}")
    return AGENTS[name]


def restored(agent: str, preset: str, spec: EnvSpec, fields: Mapping[str, Any]) -> Config:
    """The preset's config with the fields of a saved file, whether the form reads them or not."""
    start = find(agent).preset(preset, spec)
    check_names(agent, preset, fields)
    return with_fields(start, fields)


def configured(agent: str, preset: str, spec: EnvSpec, fields: Mapping[str, Any]) -> Config:
    """The preset's config with the fields that a user set; one that would have no effect is a one-line ValueError."""
    start, config = find(agent).preset(preset, spec), restored(agent, preset, spec, fields)
    unread = config.unread(spec.action_kind == "discrete") if isinstance(config, QConfig | SBEEDConfig) else {}
    for name, needs in unread.items():
        if getattr(config, name) != getattr(start, name):
            raise ValueError(f"{name}: does nothing here: it needs {needs}")
    return config
