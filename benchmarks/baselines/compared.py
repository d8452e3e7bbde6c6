"""What is compared: data."""

from typing import Any, NamedTuple

TASKS = ("Pendulum-v1", "Hopper-v5", "HalfCheetah-v5")
EPISODES = 20
SHARE = 0.9  # of what the peer gains over random actions


class Compared(NamedTuple):
    library: str  # of the peer
    peer: str  # its name
    steps: int
    seeds: int
    fields: dict[str, Any]  # over our preset, to have the peer's hyper-parameters


AGENTS = {
    "trpo": Compared(
        "contrib", "sb3-contrib TRPO", 200_000, 5, {"normalize_observations": False, "normalize_rewards": False}
    ),
    "ddpg": Compared("sb3", "SB3 DDPG", 100_000, 3, {"warmup": 100, "hidden": [400, 300]}),
    "sac": Compared("sbx", "SBX SAC", 100_000, 3, {"warmup": 100}),
}
