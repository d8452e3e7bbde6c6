"""Record datasets: policies act in an environment, and every transition is kept."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from sbeed.collect.actor import Drawing
from sbeed.collect.episode import TRAINING, Episode
from sbeed.data.dataset import Dataset, from_arrays
from sbeed.envs import registry, spaces
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.gym import GymEnv, make_gym
from sbeed.envs.hosted import Hosted
from sbeed.envs.task import read_task
from sbeed.models.host import HostPolicy
from sbeed.types import EnvSpec

# Second words of two seeds: of the actions, and of the draw of each episode's policy. `collect.episode` has the others.
ACTIONS, POLICIES = 0, 4


class Uniform(Drawing):
    """Draw uniformly random actions."""

    def __init__(self, spec: EnvSpec):
        self.spec = spec

    def draw(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray | int:
        if self.spec.action_kind == "discrete":
            return int(rng.integers(self.spec.action_size))
        return rng.uniform(-1, 1, self.spec.action_size).astype(np.float32)

    def squash(self, action: np.ndarray | int) -> np.ndarray | int:
        return action


def record_dataset(
    env: str,
    policies: Sequence[HostPolicy | None],
    steps: int,
    *,
    seed: int = 0,
    noise: float = 0.0,
    single_path: bool = False,
    names: Sequence[str] | None = None,
    on_step: Callable[[int], None] = lambda step: None,
) -> Dataset:
    """Record `steps` transitions of policies in a named environment; the policy None acts uniformly at random.

    With several policies each episode is played by one of them, drawn uniformly. single_path: remove the environment's
    time limit, so that only terminations interrupt the path. names: names of the policies, kept in the dataset's
    origin. The last transition is marked as an episode's last, although only the data end there.
    """
    if steps < 1 or not policies:
        raise ValueError("steps: there must be at least 1" if policies else "policy: there must be one")
    task, opened = read_task(env, noise), _open(env, noise, single_path)
    players: list[Drawing] = [Uniform(task.spec) if policy is None else policy for policy in policies]
    for policy in policies:
        if policy is not None and policy.actions != task.spec.action_size:
            raise ValueError(f"policy: has {policy.actions} actions, {env} has {task.spec.action_size}")
    rng, choice = np.random.default_rng([seed, ACTIONS]), np.random.default_rng([seed, POLICIES])
    episode = Episode(opened, seed, TRAINING)
    rows: list[tuple] = []
    try:
        while len(rows) < steps:
            episode.begin(episode.number)
            act = _acting(players[choice.integers(len(players))], rng)
            for step in islice(episode.play(act), steps - len(rows)):
                last = step.last or len(rows) == steps - 1
                rows.append((step.obs, step.sent, step.reward, step.next_obs, step.terminated, last))
                on_step(len(rows))
    finally:
        opened.close()
    columns = dict(zip(("obs", "action", "reward", "next_obs", "terminated", "last"), map(np.array, zip(*rows))))
    if isinstance(task.observation_space, spaces.spaces.Discrete):  # seen one-hot
        for key in ("obs", "next_obs"):
            columns[key] = columns[key].argmax(-1) + int(task.observation_space.start)
    columns["action"] = spaces.decode(task.action_space, columns["action"])
    origin = {"policies": list(names or []), "seed": seed, "noise": noise, "single_path": single_path}
    box = {"observation_space": task.observation_space, "action_space": task.action_space}
    return from_arrays(columns, **box, name=task.spec.name, origin=origin)


def _acting(player: Drawing, rng: np.random.Generator) -> Callable[[np.ndarray], tuple[Any, Any]]:
    """The `act` of `Episode.play` for one episode of that policy."""
    noise: Any = 0.0

    def act(obs: np.ndarray) -> tuple[Any, Any]:
        nonlocal noise
        raw, noise = player.act(obs, noise, rng)
        return raw, player.squash(raw)

    return act


def _open(env: str, noise: float, single_path: bool) -> HostEnv:
    if not single_path:
        made = registry.make(env, noise)
        return Hosted(made) if isinstance(made, JaxEnv) else made
    if env.startswith("jax:"):
        raise ValueError(f"single_path: the time limit of {env} is part of its state")
    made = registry.make(make_gym(env, time_limit=False), noise)
    assert isinstance(made, GymEnv)
    return made
