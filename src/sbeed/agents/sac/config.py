"""Every knob of SAC, with what it does, its range and, where its authors' second paper gives one, that paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class SACConfig:
    # The objective
    gamma: float = knob(
        0.99,
        "discount of a reward one step later; larger looks further ahead and learns more slowly",
        low=0,
        high=1,
        open=True,
        paper=".99",
    )
    lam: float = knob(
        1.0,
        "start value of the entropy's weight, the temperature of SAC; larger keeps pi more random",
        low=0,
        open=True,
    )
    entropy_target: float = knob(
        -1.0, "entropy that lam is adapted to, per dimension of the actions; larger explores more", paper="-1"
    )

    # The steps
    Q_step_size: float = knob(
        3e-4, "step size of the critics; larger learns faster and less stably", low=0, paper=".0003"
    )
    pi_step_size: float = knob(3e-4, "step size of pi; larger learns faster and less stably", low=0, paper=".0003")
    lam_step_size: float = knob(3e-4, "step size of log lam; 0 keeps lam fixed", low=0, paper=".0003")
    slow_rate: float = knob(
        0.005,
        "rate at which the slow copies follow the critics, per update; larger is quicker and less stable",
        low=0,
        high=1,
        paper=".005",
    )

    # The models
    hidden: tuple[int, ...] = knob(
        (256, 256), "widths of the hidden layers; wider fits more and costs time", low=1, high=16_384, paper="256 256"
    )

    # The data
    batch_size: int = knob(256, "transitions per update; larger has less noise and costs time", low=1, paper="256")
    replay_capacity: int = knob(
        1_000_000,
        "transitions kept; a larger replay needs more memory and holds older data",
        low=1,
        high=1e9,
        paper="1000000",
    )
    warmup: int = knob(
        5_000,
        "steps of uniformly random actions before the first update; more give broader first data and a later start",
        low=1,
        paper="not said",
    )
    steps_per_iteration: int = knob(
        64, "environment steps between rounds of updates; more is faster per step and reacts later", low=1, paper="1"
    )
    overlap: bool = knob(
        True,
        "run updates while the next steps are collected, on the data from before them: faster, one round later",
        paper="no",
    )
    updates_per_iteration: int = knob(
        64, "updates after each round of steps; more learn more from a step and cost time", low=1, paper="1"
    )

    @property
    def on_policy(self) -> bool:
        """Always False: critics learn from any action, also old ones."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Always None: updates do not wait for an episode's end."""
        return None
