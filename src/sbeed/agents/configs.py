"""The configs of the agents by name, without jax: what a command line can ask for before anything is loaded."""

from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.trpo.config import TRPOConfig

CONFIGS: dict[str, type] = {
    "sbeed": SBEEDConfig,
    "q_sbeed": QConfig,
    "pcl": SBEEDConfig,
    "trpo": TRPOConfig,
    "dual_ac": DualACConfig,
    "ddpg": DDPGConfig,
    "sac": SACConfig,
}
