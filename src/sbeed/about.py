"""What a saved model says of itself: the agent, its config, and all that it must know of its environment."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium

from sbeed.agents.configs import FORMER, FORMER_AGENTS
from sbeed.agents.knobs import converted
from sbeed.agents.registry import configured, find
from sbeed.data.dataset import Dataset
from sbeed.envs import spaces
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.gym import make_gym
from sbeed.training import files
from sbeed.training.sources import Env, spec_of
from sbeed.types import EnvSpec


class Task(NamedTuple):
    """What an agent must know of an environment to act in it, and its name if it can be made by one."""

    spec: EnvSpec
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    name: str | None
    noise: float = 0.0


def read_task(env: Env, noise: float = 0.0) -> Task:
    """What there is to know of an environment; a ValueError if no agent can act in it."""
    if isinstance(env, str) and not env.startswith("jax:"):
        opened = make_gym(env)
        task = read_task(opened, noise)
        opened.close()
        return task._replace(name=env)
    if not isinstance(env, str | gymnasium.Env | gymnasium.vector.VectorEnv | JaxEnv | HostEnv) or isinstance(
        env, type
    ):
        raise ValueError(f"env: must be a name, a Gymnasium environment or vector, or a JAX environment, got {env!r}")
    spec = spec_of(env, noise)
    return Task(spec, *spaces.of_env(env, spec), env if isinstance(env, str) else None, noise)


def task_of(dataset: Dataset, name: str | None = None) -> Task:
    """What there is to know of the environment that a dataset is of.   name: where to evaluate, if it has one"""
    return Task(dataset.spec, dataset.observation_space, dataset.action_space, name)


def check_imports_nothing(name: str, remedy: str) -> None:
    """A ValueError for an environment's name, read from a file, that Gymnasium would import a module for."""
    if ":" in name and not name.startswith("jax:"):
        raise ValueError(f"env: {name!r} would import a module, which no file may do: name it yourself ({remedy})")


class About(NamedTuple):
    """What a saved model's manifest says of it."""

    agent: str
    task: Task
    preset: str
    config: Any
    seed: int
    steps: int


def describe(about: About) -> dict[str, Any]:
    """The same as plain data."""
    agent, task, preset, config, seed, steps = about
    env = {
        **{"name": task.name, "noise": task.noise, "spec": asdict(task.spec)},
        "observation_space": spaces.to_json(task.observation_space),
        "action_space": spaces.to_json(task.action_space),
    }
    return {"agent": agent, "preset": preset, "seed": seed, "steps": steps, "env": env, "config": plain(config)}


def read_about(path: Path) -> About:
    """The manifest of a saved model, checked: an agent that we know, a config that it accepts, spaces that fit."""
    manifest = files.read_manifest(path)
    if manifest["schema"] == 1 and manifest.get("agent") in FORMER_AGENTS:
        raise files.DamagedModel(f"'{path}' was trained by {FORMER}")
    try:
        env = manifest["env"]
        spec, name = EnvSpec(**env["spec"]), env["name"]
        seen, done = (spaces.from_json(env[f"{kind}_space"]) for kind in ("observation", "action"))
        sizes = [gymnasium.spaces.flatdim(space) for space in (seen, done)]
        if [spec.observation_size, spec.action_size] != sizes or not isinstance(name, str | None):
            raise ValueError("its environment contradicts itself")
        agent, preset = find(manifest["agent"]), manifest["preset"]
        config = configured(agent.name, preset, spec, manifest["config"])
        agent.check(config, spec)
        seed, steps = (count(word, manifest[word], low=0) for word in ("seed", "steps"))
        task = Task(spec, seen, done, name, float(env["noise"]))
        return About(agent.name, task, preset, config, seed, steps)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise files.DamagedModel(f"'{path / files.MANIFEST}' is not a manifest of ours: {reason}") from None


def plain(config: Any) -> dict[str, Any]:
    """The config as YAML and JSON know it: no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}


def count(name: str, value: Any, low: int = 1) -> int:
    """numpy's whole numbers and 1e6 are taken for what they are."""
    number = converted(name, value, int)
    if not low <= number < 2**32:
        raise ValueError(f"{name}: must lie in [{low}, 2^32), got {number}")
    return number
