"""The configs of the agents by name, without jax: what a command line can ask for before anything is loaded."""

from sbeed.agents.sbeed.config import SBEEDConfig

CONFIGS: dict[str, type] = {"sbeed": SBEEDConfig, "pcl": SBEEDConfig}
