"""Do estimates from data put policies into the right order? Eight policies that were fixed beforehand, two tasks."""

import tempfile
from typing import Any, NamedTuple

from scipy.stats import spearmanr

from benchmarks.rows import Measurement
from sbeed import SBEED
from sbeed.api import Algorithm
from sbeed.collect.record_dataset import record_dataset

PLAYED = 10_000  # steps from which a true return is told


class Study(NamedTuple):
    env: str
    stages: tuple[int, ...]  # environment steps after which a learning agent is one of the eight
    fields: dict[str, Any]
    transitions: int


TASKS = {
    # Its agent learns between 1,100 and 2,000 steps: later stages are as good as one another, and in no order.
    "cartpole": Study("CartPole-v1", (1_150, 1_250, 1_350, 1_450, 1_600, 1_800, 2_300, 14_000), {}, 20_000),
    "pendulum": Study(
        "Pendulum-v1",
        (1_100, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 7_000),
        {"hidden": (64, 64), "warmup": 1_000},
        20_000,
    ),
}


def measure(name: str, seed: int) -> Measurement:
    """The data are of random actions and of three stages of an agent with another seed, an episode each in turn."""
    task = TASKS[name]
    makers = _stages(task, seed + 100, task.stages[2::2])
    data = record_dataset(task.env, [None, *(agent.policy for agent in makers)], task.transitions, seed=seed)
    found = []
    for steps, agent in zip(task.stages, _stages(task, seed, task.stages)):
        estimate = agent.estimate_value(data, seed=seed)
        found.append({"steps": steps, "return": _truth(task, agent, seed), **estimate._asdict()})
    true = [one["return"] for one in found]
    ranks = {f"{kind}_rank": float(spearmanr(true, [one[kind] for one in found])[0]) for kind in ("fitted", "robust")}
    return {"study": f"values, {name}", "seed": seed, "policies": found, **ranks}


def _truth(task: Study, agent: Algorithm, seed: int) -> float:
    """The mean return of whole episodes in which actions are drawn, as the estimates have it."""
    played = record_dataset(task.env, [agent.policy], PLAYED, seed=seed + 1_000)
    return float(played.returns[:-1].mean())


def _stages(task: Study, seed: int, stages: tuple[int, ...]) -> list[Algorithm]:
    agent, kept = SBEED(None, task.env, seed=seed, **task.fields), []
    for steps in stages:
        agent.learn(steps - agent.num_timesteps)
        with tempfile.TemporaryDirectory() as place:
            agent.save(f"{place}/model")
            kept.append(Algorithm.load(f"{place}/model"))
    agent.close()
    return kept
