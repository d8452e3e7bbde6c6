"""Stepping environments on the host, in worker processes, for a population of agents.

Each agent owns one environment and one random stream, both seeded by the agent alone: what it sees does not depend on
how many workers there are.
"""

import multiprocessing
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from sbeed.envs.base import HostEnv
from sbeed.models.policies import Policy, random_action
from sbeed.types import Transition

MakeEnv = Callable[[], HostEnv]


class Actor:
    """One agent's environment, its random stream and the episode that is under way."""

    def __init__(self, make: MakeEnv, seed: int):
        self.make, self.env, self.seed = make, make(), seed
        self.evaluation_env: HostEnv | None = None  # its own, so that the episode under way is not disturbed
        self.rng = np.random.default_rng([seed, 0])
        self.episodes = 0
        self.returns: list[float] = []  # of the episodes that ended since they were last asked for
        self._reset()

    def _reset(self) -> None:
        # Episodes are seeded by counter: any of them can be played again without those before it.
        self.obs = self.env.reset(seed=int(np.random.SeedSequence([self.seed, 1, self.episodes]).generate_state(1)[0]))
        self.total = 0.0
        self.episodes += 1

    def collect(self, policy: Policy | None, steps: int) -> Transition:
        """`steps` transitions by the policy, or at random without one."""
        rows = []
        for _ in range(steps):
            obs = self.obs
            raw = random_action(self.env.spec, self.rng) if policy is None else policy.draw(obs, self.rng)
            sent = np.tanh(raw) if policy is None and self.env.spec.action_kind == "box" else raw
            if policy is not None:
                sent = policy.squash(raw, np)
            next_obs, reward, terminated, truncated = self.env.step(sent)
            last = terminated or truncated
            rows.append((obs, raw, reward, next_obs, terminated, last))
            self.obs, self.total = next_obs, self.total + reward
            if last:
                self.returns.append(self.total)
                self._reset()
        return Transition(*(np.asarray(column) for column in zip(*rows)))  # type: ignore[arg-type]

    def evaluate(self, policy: Policy, episodes: int) -> list[float]:
        """Returns of the deterministic policy on episodes that training never sees."""
        returns = []
        if self.evaluation_env is None:
            self.evaluation_env = self.make()
        env = self.evaluation_env
        for episode in range(episodes):
            obs = env.reset(seed=int(np.random.SeedSequence([self.seed, 2, episode]).generate_state(1)[0]))
            total, over = 0.0, False
            while not over:
                obs, reward, terminated, truncated = env.step(policy.squash(policy.mode(obs, np), np))
                total, over = total + reward, terminated or truncated
            returns.append(total)
        return returns


def _work(pipe: Connection, make: MakeEnv, seeds: Sequence[int]) -> None:
    actors = [Actor(make, seed) for seed in seeds]
    while True:
        command, payload = pipe.recv()
        if command == "collect":
            policies, steps = payload
            chunks = [actor.collect(policy, steps) for actor, policy in zip(actors, policies)]
            returns = [actor.returns for actor in actors]
            for actor in actors:
                actor.returns = []
            pipe.send((chunks, returns))
        elif command == "evaluate":
            policies, episodes = payload
            pipe.send([actor.evaluate(policy, episodes) for actor, policy in zip(actors, policies)])
        else:
            return


class Collector:
    """The actors of a population, spread over worker processes."""

    def __init__(self, make: MakeEnv, seeds: Sequence[int], workers: int):
        context = multiprocessing.get_context("spawn")
        self.shares = [list(share) for share in np.array_split(np.arange(len(seeds)), min(workers, len(seeds)))]
        self.pipes, self.processes = [], []
        for share in self.shares:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, make, [seeds[i] for i in share]), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def _ask(self, command: str, policies: Sequence[Policy | None], number: int) -> list[Any]:
        for pipe, share in zip(self.pipes, self.shares):
            pipe.send((command, ([policies[i] for i in share], number)))
        return [pipe.recv() for pipe in self.pipes]

    def collect(self, policies: Sequence[Policy | None], steps: int) -> tuple[Transition, list[list[float]]]:
        """Transitions [agents, steps, ...] and the returns of the episodes that ended."""
        answers = self._ask("collect", policies, steps)
        chunks = [chunk for some, _ in answers for chunk in some]
        return Transition(*(np.stack(column) for column in zip(*chunks))), [r for _, some in answers for r in some]  # type: ignore[arg-type]

    def evaluate(self, policies: Sequence[Policy], episodes: int) -> np.ndarray:
        """Returns [agents, episodes]."""
        return np.array([returns for some in self._ask("evaluate", policies, episodes) for returns in some])

    def close(self) -> None:
        for pipe, process in zip(self.pipes, self.processes):
            pipe.send(("stop", None))
            process.join()
