"""The knobs of every agent that learns from rounds of its own policy's data; free of jax, as all configs are."""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class RoundConfig:
    gamma: float = knob(
        0.99,
        "discount of a reward one step later; larger looks further ahead and learns more slowly",
        low=0,
        high=1,
        open=True,
        paper=".995",
    )

    # The policy and its step
    policy: Literal["mlp", "rbf"] = knob("mlp", "model of pi: a network or random Fourier features", paper="rbf")
    features: int = knob(
        100,
        "number of random features wherever a model is linear in them; more fit better and cost time",
        low=1,
        paper="100; 500 on HalfCheetah",
    )
    initial_std: float = knob(
        1.0, "standard deviation of a new policy on a box of actions; larger explores more at first", low=0, open=True
    )
    kl_radius: float = knob(
        0.01,
        "largest mean KL between the policies before and after a step; larger steps learn faster and less safely",
        low=0,
        open=True,
    )
    fisher_ridge: float = knob(
        0.1,
        "damping of the natural gradient: relative to the mean diagonal of the Fisher matrix for an rbf "
        "Gaussian, absolute otherwise; larger gives shorter, steadier steps",
        low=0,
    )

    # V
    V: Literal["mlp", "linear"] = knob(
        "mlp", "model of V: a network trained by Adam, or least squares on random features"
    )
    V_step_size: float = knob(1e-3, "step size of Adam for a network V; larger learns faster and less stably", low=0)
    V_updates: int = knob(160, "Adam steps of a network V per round; more fit better and cost time", low=1)
    V_batch_size: int = knob(128, "transitions of each such step; larger has less noise and costs time", low=1)
    V_ridge: float = knob(
        1e-4,
        "ridge of a linear V, relative to the mean square of its features; larger fits more smoothly",
        low=0,
        open=True,
    )

    # The models
    hidden: tuple[int, ...] = knob(
        (64, 64), "widths of the hidden layers; wider fits more and costs time", low=1, high=16_384
    )
    activation: Literal["relu", "tanh"] = knob("tanh", "activation of the hidden layers")
    normalize_observations: bool = knob(
        True, "normalise observations by their running mean and standard deviation", paper="not said"
    )
    normalize_rewards: bool = knob(
        True, "divide rewards by the running standard deviation of the discounted return", paper="not said"
    )

    # The data
    steps_per_iteration: int = knob(
        2_048, "least number of environment steps per round; more give a less noisy update and fewer of them", low=1
    )
    trajectories_per_iteration: int | None = knob(
        None,
        "episodes to finish before the update of a round, checked after every steps_per_iteration steps; "
        "unset: no such wait",
        low=1,
        paper="52",
    )
    replay_capacity: int = knob(
        2_048, "transitions of a round that are kept, the newest; at least steps_per_iteration", low=1, high=1e9
    )

    # Fields that the trainer reads of every agent, fixed for on-policy data.
    warmup = 0
    on_policy = True
    overlap = False
