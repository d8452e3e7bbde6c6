"""Experience of a dataset: no environment is stepped, except to evaluate."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sbeed.agents.base import Config
from sbeed.collect.actor import Evaluator, Scores
from sbeed.collect.sources import make_host
from sbeed.data.dataset import Dataset
from sbeed.data.replay import Replay
from sbeed.envs.task import OneEnv
from sbeed.training.experience import Advanced, Experience, Saved
from sbeed.training.population import Population
from sbeed.types import Transition


class FromDataset(Experience):
    """The replay holds the whole dataset from the first update on."""

    on_device = True

    def __init__(self, population: Population, config: Config, dataset: Dataset, eval_env: OneEnv | None):
        super().__init__(population, config)
        data = dataset.transitions()
        raw = population.on_host(population.agent.actor)[0].unsquash(data.action)  # in the form of the policy's own
        rows = jax.tree.map(jnp.asarray, data._replace(action=raw))
        replay = Replay(rows, jnp.asarray(len(dataset), jnp.int32))
        self.replays = population.members.hold([replay] * population.members.count)
        self.plays = eval_env is not None
        make = partial(make_host, eval_env) if eval_env is not None else None
        self._evaluators = [Evaluator(make, seed) for seed in population.seeds] if make is not None else []

    def advance(self, most: int) -> Advanced:
        """Make one round of updates, even if fewer were asked for."""
        self.population.step += self.config.updates_per_iteration
        self.population.learn(self.replays)
        return Advanced(self.config.updates_per_iteration, [[] for _ in self.population.seeds])

    def evaluate(self, episodes: int) -> list[Scores]:
        if not self.plays:
            raise ValueError("eval_env: a dataset cannot be played in; name an environment")
        policies = self.population.policies()
        return [evaluator.play(policy, episodes) for evaluator, policy in zip(self._evaluators, policies)]

    def snapshot(self) -> Saved:
        return Saved({}, {"lives": []})

    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {"lives": []}

    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        pass  # the replay is filled already, and no episode is under way

    def close(self) -> None:
        for evaluator in self._evaluators:
            evaluator.close()
