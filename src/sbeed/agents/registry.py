"""Agents by name: a closed list, so that a file or a flag can name one of these and nothing else."""

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
    """One agent with the presets of all its forms: the type of the config decides whose functions run."""

    def of(part: str) -> Callable[..., Any]:
        return lambda config, *rest: getattr(forms[type(config)], part)(config, *rest)

    presets = {preset: make for form in forms.values() for preset, make in form.presets.items()}
    return Agent(name, presets, *(of(part) for part in Agent._fields[2:]))


SBEED = combined("sbeed", {QConfig: Q_FORM, SBEEDConfig: V_PI_FORM})
AGENTS: dict[str, Agent] = {agent.name: agent for agent in (SBEED, PCL, TRPO, DUAL_AC, DDPG, SAC)}


def find(name: str) -> Agent:
    """The agent of that name; a ValueError with the names there are."""
    if name not in AGENTS:
        raise ValueError(f"agent: must be one of {', '.join(AGENTS)}, got {name!r}")
    return AGENTS[name]


def restored(agent: str, preset: str, spec: EnvSpec, fields: Mapping[str, Any]) -> Config:
    """The preset's config with these fields replaced, as a saved file has them: all of them, read or not."""
    start = find(agent).preset(preset, spec)
    check_names(agent, preset, fields)
    return with_fields(start, fields)


def configured(agent: str, preset: str, spec: EnvSpec, fields: Mapping[str, Any]) -> Config:
    """The same for fields that a user asks for; a ValueError in one line for one that would do nothing."""
    start, config = find(agent).preset(preset, spec), restored(agent, preset, spec, fields)
    unread = config.unread(spec.action_kind == "discrete") if isinstance(config, QConfig) else {}
    for name, needs in unread.items():
        if getattr(config, name) != getattr(start, name):
            raise ValueError(f"{name}: has no effect: it requires {needs}")
    return config
