"""Agents by name: a closed list, so that a file or a flag can name one of these and nothing else."""

from sbeed.agents.base import Agent
from sbeed.agents.ddpg.agent import DDPG
from sbeed.agents.dual_ac.agent import DUAL_AC
from sbeed.agents.q_sbeed.agent import Q_SBEED
from sbeed.agents.sac.agent import SAC
from sbeed.agents.sbeed.agent import PCL, SBEED
from sbeed.agents.trpo.agent import TRPO

AGENTS: dict[str, Agent] = {agent.name: agent for agent in (SBEED, Q_SBEED, PCL, TRPO, DUAL_AC, DDPG, SAC)}


def find(name: str) -> Agent:
    """The agent of that name; a ValueError with the names there are."""
    if name not in AGENTS:
        raise ValueError(f"agent: must be one of {', '.join(AGENTS)}, got {name!r}")
    return AGENTS[name]
