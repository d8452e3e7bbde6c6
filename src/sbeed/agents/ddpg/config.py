"""Every knob of DDPG, with what it does, its range and the value in the paper's comparison with SBEED.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class DDPGConfig:
    # The objective
    gamma: float = knob(
        0.99,
        "discount of a reward one step later; larger looks further ahead and learns more slowly",
        low=0,
        high=1,
        open=True,
        paper=".995",
    )

    # The policy
    policy: Literal["mlp", "rbf"] = knob("mlp", "model of pi: a network or random Fourier features", paper="rbf")
    features: int = knob(
        100,
        "number of random features of an rbf policy; more fit better and cost time",
        low=1,
        paper="100; 500 on HalfCheetah",
    )
    noise_std: float = knob(
        0.1,
        "standard deviation of the noise that each step adds to the actions; larger explores more",
        low=0,
        open=True,
        paper=".3",
    )
    noise_theta: float = knob(
        1.0,
        "share of the noise that decays at each step; 1 is white noise, less is Ornstein-Uhlenbeck noise",
        low=0.001,
        high=1,
        paper=".15",
    )

    # The steps
    Q_step_size: float = knob(
        1e-3, "step size of the critic; larger learns faster and less stably", low=0, paper=".001"
    )
    pi_step_size: float = knob(1e-3, "step size of pi; larger learns faster and less stably", low=0, paper=".0001")
    slow_rate: float = knob(
        0.005,
        "rate at which the slow copies follow the critic and pi, per update; larger is quicker and less stable",
        low=0,
        high=1,
        paper=".001",
    )

    # The models
    hidden: tuple[int, ...] = knob(
        (256, 256), "widths of the hidden layers; wider fits more and costs time", low=1, high=16_384, paper="64 64"
    )
    activation: Literal["relu", "tanh"] = knob("relu", "activation of the hidden layers", paper="tanh")
    normalize_observations: bool = knob(
        False, "normalise observations by their running mean and standard deviation", paper="not said"
    )
    normalize_rewards: bool = knob(
        False, "divide rewards by the running standard deviation of the discounted return", paper="not said"
    )

    # The data
    batch_size: int = knob(256, "transitions per update; larger has less noise and costs time", low=1, paper="32-128")
    replay_capacity: int = knob(
        1_000_000, "transitions kept; a larger replay needs more memory and holds older data", low=1, high=1e9
    )
    warmup: int = knob(
        5_000,
        "steps of uniformly random actions before the first update; more give broader first data and a later start",
        low=1,
    )
    steps_per_iteration: int = knob(
        64, "environment steps between rounds of updates; more is faster per step and reacts later", low=1, paper="1"
    )
    overlap: bool = knob(
        True, "run updates while the next steps are collected, on the data from before them: faster, one round later"
    )
    updates_per_iteration: int = knob(
        64, "updates after each round of steps; more learn more from a step and cost time", low=1, paper="1"
    )

    @property
    def on_policy(self) -> bool:
        """Always False: the critic learns from any action, also old ones."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Always None: updates do not wait for an episode's end."""
        return None
