"""The configs of the agents by name, without jax: what a command line can ask for before anything is loaded."""

from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.trpo.config import TRPOConfig

CONFIGS: dict[str, type] = {
    "sbeed": SBEEDConfig,
    "pcl": SBEEDConfig,
    "trpo": TRPOConfig,
    "dual_ac": DualACConfig,
    "ddpg": DDPGConfig,
    "sac": SACConfig,
}
