"""Every knob of SAC, with what it does, its range and, where its authors' second paper gives one, that paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class SACConfig:
    # The objective
    gamma: float = knob(0.99, "discount", low=0, high=1, open=True, paper=".99")
    lam: float = knob(1.0, "weight of the entropy, SAC's temperature: its start", low=0, open=True)
    entropy_target: float = knob(-1.0, "entropy that lam moves towards, per dimension of the actions", paper="-1")

    # The steps
    Q_step_size: float = knob(3e-4, "of the critics", low=0, paper=".0003")
    pi_step_size: float = knob(3e-4, "of pi", low=0, paper=".0003")
    lam_step_size: float = knob(3e-4, "of log lam; 0 holds it", low=0, paper=".0003")
    slow_rate: float = knob(
        0.005, "share of the critics that their slow copies take over per update", low=0, high=1, paper=".005"
    )

    # The models
    hidden: tuple[int, ...] = knob((256, 256), "widths of the hidden layers", low=1, high=16_384, paper="256 256")

    # The data
    batch_size: int = knob(256, "transitions per update", low=1, paper="256")
    replay_capacity: int = knob(1_000_000, "transitions kept", low=1, high=1e9, paper="1000000")
    warmup: int = knob(5_000, "uniformly random steps before the first update", low=1, paper="not said")
    steps_per_iteration: int = knob(64, "environment steps between updates", low=1, paper="1")
    overlap: bool = knob(
        True, "updates use what was there before a round's steps, so that both run at the same time", paper="no"
    )
    updates_per_iteration: int = knob(64, "updates after each of these rounds", low=1, paper="1")

    @property
    def on_policy(self) -> bool:
        """Never: critics learn from any action, and old ones are most of what there is."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Updates do not wait for an episode's end."""
        return None
