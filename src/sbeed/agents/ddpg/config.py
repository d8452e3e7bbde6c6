"""Every knob of DDPG, with what it does, its range and the value in the paper's comparison with SBEED.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class DDPGConfig:
    # The objective
    gamma: float = knob(0.99, "discount", low=0, high=1, open=True, paper=".995")

    # The policy
    policy: Literal["mlp", "rbf"] = knob("mlp", "what pi is made of", paper="rbf")
    features: int = knob(100, "random features of an rbf policy", low=1, paper="100; 500 on HalfCheetah")
    noise_std: float = knob(
        0.1, "standard deviation of the noise that a step adds to actions", low=0, open=True, paper=".3"
    )
    noise_theta: float = knob(
        1.0,
        "share of the noise that a step takes away: 1 is white, less is Ornstein-Uhlenbeck",
        low=0.001,
        high=1,
        paper=".15",
    )

    # The steps
    Q_step_size: float = knob(1e-3, "of the critic", low=0, paper=".001")
    pi_step_size: float = knob(1e-3, "of pi", low=0, paper=".0001")
    slow_rate: float = knob(
        0.005, "share of the critic and of pi that their slow copies take over per update", low=0, high=1, paper=".001"
    )

    # The models
    hidden: tuple[int, ...] = knob((256, 256), "widths of the hidden layers", low=1, high=16_384, paper="64 64")
    activation: Literal["relu", "tanh"] = knob("relu", "of the hidden layers", paper="tanh")
    normalize_observations: bool = knob(False, "by running mean and standard deviation", paper="not said")
    normalize_rewards: bool = knob(
        False, "by the running standard deviation of the discounted return", paper="not said"
    )

    # The data
    batch_size: int = knob(256, "transitions per update", low=1, paper="32-128")
    replay_capacity: int = knob(1_000_000, "transitions kept", low=1, high=1e9)
    warmup: int = knob(5_000, "uniformly random steps before the first update", low=1)
    steps_per_iteration: int = knob(64, "environment steps between updates", low=1, paper="1")
    overlap: bool = knob(True, "updates use what was there before a round's steps, so that both run at the same time")
    updates_per_iteration: int = knob(64, "updates after each of these rounds", low=1, paper="1")

    @property
    def on_policy(self) -> bool:
        """Never: the critic learns from any action, and old ones are most of what there is."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Updates do not wait for an episode's end."""
        return None
