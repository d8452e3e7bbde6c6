"""The description of an environment that an agent needs to act in it, made once."""

from typing import NamedTuple, TypeAlias

import gymnasium
from gymnasium.vector import VectorEnv

from sbeed.envs import registry, spaces
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.gym import make_gym, vector_spec
from sbeed.types import EnvSpec

OneEnv: TypeAlias = str | JaxEnv | HostEnv | gymnasium.Env | registry.Factory
Env: TypeAlias = OneEnv | VectorEnv


class Task(NamedTuple):
    """The description of an environment, and its name if it can be made by one."""

    spec: EnvSpec
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    name: str | None
    noise: float = 0.0


def read_task(env: Env, noise: float = 0.0) -> Task:
    """Describe an environment; a ValueError if no agent can act in it."""
    if registry.is_factory(env) or (isinstance(env, str) and not env.startswith("jax:")):
        opened = make_gym(env) if isinstance(env, str) else env()
        task = read_task(opened, noise)
        opened.close()
        return task._replace(name=env if isinstance(env, str) else None)
    if not isinstance(env, str | gymnasium.Env | VectorEnv | JaxEnv | HostEnv) or isinstance(env, type):
        raise ValueError(
            "env: must be a name, a Gymnasium environment or vector, a function that makes one environment, or a JAX "
            f"environment, got {env!r}"
        )
    spec = spec_of(env, noise)
    return Task(spec, *spaces.of_env(env, spec), env if isinstance(env, str) else None, noise)


def spec_of(env: Env, noise: float = 0.0) -> EnvSpec:
    """The sizes and the kind of action of an environment; a ValueError if no agent can act in it."""
    if isinstance(env, VectorEnv):
        return vector_spec(env)
    made = registry.make(env, noise)
    if (isinstance(env, str) or registry.is_factory(env)) and not isinstance(made, JaxEnv):
        made.close()
    return made.spec


def check_fits(field: str, found: EnvSpec, wanted: EnvSpec) -> None:
    """Raise a ValueError if an agent made for one environment cannot act in the other."""
    for name in ("observation_size", "action_kind", "action_size"):
        here, there = getattr(wanted, name), getattr(found, name)
        if here != there:
            raise ValueError(f"{field}: {found.name} has {name} {there}, the agent was made for {here}")


def check_imports_nothing(name: str, remedy: str) -> None:
    """Raise a ValueError for an environment's name, read from a file, that makes Gymnasium import a module."""
    if ":" in name and not name.startswith("jax:"):
        raise ValueError(f"env: {name!r} would import a module, which no file may do: name it yourself ({remedy})")
