"""Choose the kind of experience for an environment or a dataset."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sbeed.agents.base import Config
from sbeed.collect.sources import host_source
from sbeed.data.dataset import Dataset
from sbeed.envs import registry
from sbeed.envs.base import JaxEnv
from sbeed.envs.task import Env, OneEnv
from sbeed.models.host import HostPolicy
from sbeed.training.experience import Experience, OnHost, Rule
from sbeed.training.from_dataset import FromDataset
from sbeed.training.on_device import OnDevice
from sbeed.training.population import Population


def experience_of(
    env: Env | Dataset,
    noise: float,
    eval_env: OneEnv | None,
    *,
    workers: int,
    behaviour: HostPolicy | Rule | None,
    members: int,
) -> Callable[[Population, Config], Experience]:
    """Make the experience for an environment or a dataset; raise a ValueError for arguments that do not fit."""
    if isinstance(env, Dataset):
        return partial(FromDataset, dataset=env, eval_env=eval_env)
    pure = _pure_env(env, noise) if behaviour is None else None  # a behaviour acts on the host
    if pure is not None:
        evaluated = pure if eval_env is None else _pure_env(eval_env, 0.0)
        if evaluated is None:
            raise ValueError("eval_env: must be a JAX environment where env is one")
        return partial(OnDevice, env=pure, eval_env=evaluated)
    source = host_source(env, noise, eval_env)
    if not source.named and members > 1:
        raise ValueError(f"seeds: an environment given as an object serves one seed, got {members}")
    return partial(OnHost, source=source, workers=workers, behaviour=behaviour)


def _pure_env(env: Any, noise: float) -> JaxEnv | None:
    if isinstance(env, JaxEnv) or (isinstance(env, str) and env.startswith("jax:")):
        made = registry.make(env, noise)
        assert isinstance(made, JaxEnv)
        return made
    return None
