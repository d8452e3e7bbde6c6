"""Experience of pure environments, which the device steps in the same program that learns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sbeed.agents.base import Config
from sbeed.collect import rollout
from sbeed.collect.actor import Scores
from sbeed.envs.base import EnvironmentFault, JaxEnv
from sbeed.training import compiled_steps
from sbeed.training.experience import Collected, Returns, Saved
from sbeed.training.population import Population
from sbeed.training.resume_state import without
from sbeed.types import Transition


class OnDevice(Collected):
    """Pure environments, stepped in the same program that learns."""

    on_device = True

    def __init__(self, population: Population, config: Config, env: JaxEnv, eval_env: JaxEnv):
        super().__init__(population, config, explores=True)
        members = population.members
        self._envs, self._eval_envs = (members.hold([one] * members.count) for one in (env, eval_env))
        self._rollouts = members.run(compiled_steps.begin_rollout, self._envs, population.keys)
        for i, started in enumerate(members.fetch(self._rollouts)):
            if not np.isfinite(started.obs).all():
                raise self._fault(i, 0, "the reset before step 1 of the run")

    def _collect(self, steps: int, exploring: bool, learning: bool) -> Returns:
        population, members = self.population, self.population.members
        preparing = learning and not population.prepared
        population.prepared |= preparing
        with population.timing("update"):
            population.states, self.replays, self._rollouts, metrics, finite, returns, faults = members.run(
                compiled_steps.collect_and_learn,
                *(population.configs, population.keys, population.states, self.replays, self._envs, self._rollouts),
                shared=(population.step, steps, exploring, preparing, learning),
                donate=(2, 3),
                static={"length": self.config.steps_per_iteration, **population.static},
            )
            for i, fault in enumerate(members.fetch(faults)):
                if fault >= 0 and i not in population.diverged:
                    offset, field = divmod(int(fault), len(rollout.FIELDS))
                    step = f"step {population.step - steps + 1 + offset} of the run"
                    raise self._fault(i, field, step if field else f"the reset before {step}")
            if learning:
                population.take(metrics, finite)
        return [some[np.isfinite(some)].tolist() for some in members.fetch(returns)]

    def evaluate(self, episodes: int) -> list[Scores]:
        population, members = self.population, self.population.members
        held = (population.configs, population.keys, population.states, self._eval_envs)
        scored = members.run(compiled_steps.evaluate, *held, static={"agent": population.agent, "episodes": episodes})
        returns, lengths, faults = (members.fetch(part) for part in scored)
        for i, some in enumerate(faults):
            bad = np.flatnonzero(some >= 0)
            if bad.size and i not in population.diverged:
                first = bad[0]
                where = f"step {lengths[i][first]} of episode {first + 1} of the evaluation"
                raise self._fault(i, int(some[first]), where)
        return list(zip(returns, lengths))

    def _fault(self, member: int, field: int, where: str) -> EnvironmentFault:
        """field: its number in rollout.FIELDS."""
        complaint = f"{self.population.spec.name}: {rollout.FIELDS[field]} is not finite"
        return EnvironmentFault(complaint, f" at {where} (seed {self.population.seeds[member]})")

    def snapshot(self) -> Saved:
        population = self.population
        return Saved({}, {"lives": without(population.diverged, population.members.fetch(self._rollouts))})

    def like(self, about: Mapping[str, Any], step: int) -> dict[str, Any]:
        return {"lives": self.population.members.fetch(self._rollouts)}

    def restore(self, saved: Saved, rows: Transition, written: int, *, restart: bool) -> None:
        self._rollouts = self.population.members.hold(saved.arrays["lives"])
        self._refill(rows, written)

    def close(self) -> None:
        pass
