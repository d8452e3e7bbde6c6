"""What is compared: data."""

from collections.abc import Mapping
from typing import Any, NamedTuple

TASKS = {"Pendulum-v1": 1, "Hopper-v5": 3, "HalfCheetah-v5": 6}  # dimensions of an action
EPISODES = 20
SHARE = 0.9  # of what the peer gains over random actions


class Compared(NamedTuple):
    library: str  # of the peer
    peer: str  # its name
    steps: int
    seeds: Mapping[str, int]  # of a task
    fields: dict[str, Any]  # over our preset, to have the peer's hyper-parameters
    for_each_dimension: Mapping[str, float] = {}  # more of them, times the dimensions of an action

    def fields_on(self, task: str) -> dict[str, Any]:
        return {**self.fields, **{name: value * TASKS[task] for name, value in self.for_each_dimension.items()}}


AGENTS = {
    "trpo": Compared(
        "contrib",
        "sb3-contrib TRPO",
        200_000,
        # Five left a difference of a fifth within its interval; fifteen did so on HalfCheetah.
        {"Pendulum-v1": 15, "Hopper-v5": 15, "HalfCheetah-v5": 30},
        {"normalize_observations": False, "normalize_rewards": False},
        # Its KL is a mean over the dimensions of an action, ours, as KL is, the sum: its .01 is .06 on HalfCheetah.
        for_each_dimension={"kl_radius": 0.01, "fisher_ridge": 0.1},
    ),
    "ddpg": Compared("sb3", "SB3 DDPG", 100_000, dict.fromkeys(TASKS, 3), {"warmup": 100, "hidden": [400, 300]}),
    # On HalfCheetah a run of either side may not get beyond 1,400: three seeds say nothing there.
    "sac": Compared("sbx", "SBX SAC", 100_000, {**dict.fromkeys(TASKS, 3), "HalfCheetah-v5": 10}, {"warmup": 100}),
}
