"""The presets."""

from collections.abc import Callable
from dataclasses import replace

from sbeed.agents.q_sbeed.config import QConfig
from sbeed.types import EnvSpec


def default(spec: EnvSpec) -> QConfig:
    """The setting we recommend: one for all boxes of actions, one for all discrete ones."""
    if spec.action_kind == "box":
        return QConfig()
    return QConfig(
        kappa=0.0,  # the least share that descends, from nothing on
        lam=0.1,
        entropy_target=0.25,
        hidden=(64, 64),
        momentum=0.9,
        warmup=1_000,
        average_rate=0.005,
        least_std=0.0,
        normalize_rewards=False,
    )


def gradient(spec: EnvSpec) -> QConfig:
    """`default` along the gradient of L_eta itself: eta 1 and the whole backward half, no slow copy."""
    return replace(default(spec), backward="kappa", kappa=1.0, eta=1.0, slow_copy=False)


def offline(spec: EnvSpec) -> QConfig:
    """For a fixed dataset: entropy is relative to a clone of the policy that collected it."""
    near = replace(default(spec), prior="behaviour")
    return replace(near, adapt_lam=False, lam=0.4, clone_steps=20_000)


PRESETS: dict[str, Callable[[EnvSpec], QConfig]] = {"default": default, "gradient": gradient, "offline": offline}
