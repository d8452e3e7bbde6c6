"""Turn an environment, given by name or as an object, into the actors that step it on the host."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import gymnasium
from gymnasium.vector import VectorEnv

from sbeed.collect.actor import Actor, MakeEnv
from sbeed.collect.vector_actor import VectorActor
from sbeed.envs import registry
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.hosted import Hosted
from sbeed.envs.task import Env, OneEnv


class Source(NamedTuple):
    """A maker of actors for one environment."""

    actor: Callable[[int], Actor | VectorActor]  # makes an actor from a member's seed
    named: bool  # the environment was given by name, so that every member can have its own
    replayable: bool = True  # episodes can be replayed from their seeds


def host_source(env: Env, noise: float, eval_env: OneEnv | None) -> Source:
    """Make the source of an environment.   eval_env: where to evaluate; None makes another environment like `env`"""
    if not isinstance(env, str | JaxEnv) and getattr(eval_env, "unwrapped", eval_env) is getattr(env, "unwrapped", env):
        raise ValueError("eval_env: must be another environment than env, whose episode it would break off")
    if isinstance(env, VectorEnv):
        if noise:
            raise ValueError("noise: give the environments inside a VectorEnv their own")
        return Source(partial(VectorActor, env, _evaluation(env, 0.0, eval_env)), named=False, replayable=False)
    actor = partial(Actor, partial(make_host, env, noise), _evaluation(env, noise, eval_env))
    return Source(actor, named=isinstance(env, str | JaxEnv))


class Lent:
    """An environment that belongs to the user; closing this wrapper leaves it open."""

    def __init__(self, env: HostEnv):
        self.spec, self.reset, self.step = env.spec, env.reset, env.step

    def close(self) -> None:
        pass


def make_host(env: OneEnv, noise: float = 0.0) -> HostEnv:
    """Make an environment to step on the host; closing the result leaves an environment given as an object open."""
    made = registry.make(env, noise)
    if isinstance(made, JaxEnv):
        return Hosted(made)
    return made if isinstance(env, str) else Lent(made)


def _evaluation(env: Env, noise: float, eval_env: OneEnv | None) -> MakeEnv:
    if eval_env is not None:
        return partial(make_host, eval_env)
    if isinstance(env, str | JaxEnv):
        return partial(make_host, env, noise)
    return partial(_again, env, noise)


def _again(env: gymnasium.Env | VectorEnv | HostEnv, noise: float) -> HostEnv:
    """Make another environment like this one from its Gymnasium registration."""
    registered = env.spec
    if not isinstance(registered, gymnasium.envs.registration.EnvSpec):
        raise ValueError(f"eval_env: {env} has no registration to make another one from; give one to evaluate in")
    try:
        if isinstance(env, VectorEnv):
            of_vectors = ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "max_episode_steps")
            fields = {name: value for name, value in registered.kwargs.items() if name not in of_vectors}
            made = gymnasium.make(registered.id, max_episode_steps=registered.max_episode_steps, **fields)
            for wrap in registered.kwargs.get("wrappers") or ():
                made = wrap(made)
        else:
            made = gymnasium.make(registered)
    except (gymnasium.error.Error, ValueError, TypeError) as error:
        raise ValueError(f"eval_env: {env} cannot be made again ({error}); give one to evaluate in") from error
    again = registry.make(made, noise)
    assert isinstance(again, HostEnv)
    return again
