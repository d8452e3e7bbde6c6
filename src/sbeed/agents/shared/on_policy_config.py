"""The knobs of every agent that learns from rounds of its own policy's data; free of jax, as all configs are."""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class RoundConfig:
    gamma: float = knob(0.99, "discount", low=0, high=1, open=True, paper=".995")

    # The policy and its step
    policy: Literal["mlp", "rbf"] = knob("mlp", "what pi is made of: a network or random features", paper="rbf")
    features: int = knob(100, "random features of whatever is linear in such", low=1, paper="100; 500 on HalfCheetah")
    initial_std: float = knob(1.0, "standard deviation of a new policy on a box of actions", low=0, open=True)
    kl_radius: float = knob(0.01, "most mean KL from the policy before to the one after a step", low=0, open=True)
    fisher_ridge: float = knob(
        0.1,
        "damping of the natural gradient: of the Fisher matrix's mean diagonal for an rbf Gaussian, else absolute",
        low=0,
    )

    # V
    V: Literal["mlp", "linear"] = knob("mlp", "what V is: a network by Adam, or least squares on random features")
    V_step_size: float = knob(1e-3, "of a network's Adam", low=0)
    V_updates: int = knob(160, "Adam steps of a network in each round", low=1)
    V_batch_size: int = knob(128, "transitions of such a step", low=1)
    V_ridge: float = knob(1e-4, "ridge of a linear V, of its features' mean square", low=0, open=True)

    # The models
    hidden: tuple[int, ...] = knob((64, 64), "widths of the hidden layers", low=1, high=16_384)
    activation: Literal["relu", "tanh"] = knob("tanh", "of the hidden layers")
    normalize_observations: bool = knob(True, "by running mean and standard deviation", paper="not said")
    normalize_rewards: bool = knob(True, "by the running standard deviation of the discounted return", paper="not said")

    # The data
    steps_per_iteration: int = knob(2_048, "environment steps of a round, at the least", low=1)
    trajectories_per_iteration: int | None = knob(
        None, "episodes to finish before a round's update, looked at after every so many steps", low=1, paper="52"
    )
    replay_capacity: int = knob(2_048, "transitions of a round that are kept, the newest", low=1, high=1e9)

    # What the trainer asks of every agent and on-policy data leave no choice in.
    warmup = 0
    on_policy = True
    overlap = False
