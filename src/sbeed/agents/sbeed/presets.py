"""The settings with names: what the paper ran, and what we recommend."""

from collections.abc import Callable

from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.types import EnvSpec


def paper(spec: EnvSpec) -> SBEEDConfig:
    """The paper's appendix, with the cures that its silence makes necessary (docs/agents/sbeed.md)."""
    return SBEEDConfig(
        gamma=0.995,
        eta=0.1,
        lam=0.001,
        adapt_lam=False,
        k=64,
        trace=0.95,
        kappa=0.0,
        V_actions="replay",
        dual="net",
        twins=1,
        policy="rbf",
        features=500 if spec.name.startswith("HalfCheetah") else 100,
        pi_gradient="score",
        pi_prox="kl",
        pi_step_size=0.005,
        whiten=True,
        centre=True,
        hidden=(64, 64),
        activation="tanh",
        normalize_observations=True,
        normalize_rewards=True,
        segment_length=64,
        all_starts=True,
        batch_size=20_480,
        replay_capacity=20_480,
        warmup=2_048,
        steps_per_iteration=2_048,
        updates_per_iteration=32,
        pi_updates_per_iteration=1,
        pi_batch_size=4_096,
        pi_newest=4_096,
    )


def default(spec: EnvSpec) -> SBEEDConfig:
    """What we recommend: one setting for all boxes of actions, one for all discrete ones."""
    if spec.action_kind == "box":
        return SBEEDConfig(pi_slow_rate=0.001, overlap=True)
    return SBEEDConfig(
        lam=0.1,
        entropy_target=0.2,
        k=5,
        trace=0.8,
        dual_log_pi=0.5,
        pi_step_size=1e-3,
        slow_rate=0.02,
        pi_slow_rate=0.005,
        hidden=(64, 64),
        warmup=1_000,
        overlap=True,
    )


PRESETS: dict[str, Callable[[EnvSpec], SBEEDConfig]] = {"default": default, "paper": paper}


def preset(name: str, spec: EnvSpec) -> SBEEDConfig:
    if name not in PRESETS:
        raise ValueError(f"preset: must be one of {', '.join(PRESETS)}, got {name!r}")
    return PRESETS[name](spec)
