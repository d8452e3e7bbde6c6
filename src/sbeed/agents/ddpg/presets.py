"""The presets: the setting of the paper's comparison, and the one we recommend."""

from collections.abc import Callable

from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.types import EnvSpec


def paper(spec: EnvSpec) -> DDPGConfig:
    """The mean of SBEED's own policy there, and the scales on which SBEED sees its data."""
    return DDPGConfig(
        gamma=0.995,
        policy="rbf",
        features=500 if spec.name.startswith("HalfCheetah") else 100,
        noise_std=0.3,
        noise_theta=0.15,
        Q_step_size=1e-3,
        pi_step_size=1e-4,
        slow_rate=0.001,
        hidden=(64, 64),
        activation="tanh",
        normalize_observations=True,
        normalize_rewards=True,
        batch_size=64,
        warmup=2_048,
        overlap=False,
    )


def default(spec: EnvSpec) -> DDPGConfig:
    """One setting for every box of actions; only gamma may need to differ by task."""
    return DDPGConfig()


PRESETS: dict[str, Callable[[EnvSpec], DDPGConfig]] = {"default": default, "paper": paper}
