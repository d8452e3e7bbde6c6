"""SBEED: convergent reinforcement learning with nonlinear function approximation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# What a user imports, and where it lives. Loaded when first asked for: `import sbeed` takes no jax with it.
_HOMES = {
    "SBEED": "sbeed.api",
    "PCL": "sbeed.api",
    "TRPO": "sbeed.api",
    "DualAC": "sbeed.api",
    "DDPG": "sbeed.api",
    "SAC": "sbeed.api",
    "Algorithm": "sbeed.api",
    "Score": "sbeed.api",
    "QConfig": "sbeed.agents.q_sbeed.config",
    "SBEEDConfig": "sbeed.agents.sbeed.config",
    "RunSpec": "sbeed.training.run",
    "train": "sbeed.training.run",
    "train_population": "sbeed.training.run",
    "resume": "sbeed.training.session",
    "Trainer": "sbeed.training.trainer",
    "Diverged": "sbeed.training.population",
    "DamagedModel": "sbeed.storage.tensors",
    "Dataset": "sbeed.data.dataset",
    "BadData": "sbeed.data.dataset",
    "from_arrays": "sbeed.data.dataset",
    "load_dataset": "sbeed.storage.datasets",
    "save_dataset": "sbeed.storage.datasets",
    "record_dataset": "sbeed.collect.record_dataset",
    "EnvSpec": "sbeed.types",
    "Transition": "sbeed.types",
    "JaxEnv": "sbeed.envs.base",
    "HostEnv": "sbeed.envs.base",
    "EnvironmentFault": "sbeed.envs.base",
    "StochasticTransition": "sbeed.envs.noise",
}
__all__ = ["__version__", *_HOMES]  # noqa: PLE0604  the names are strings, and this is where they are listed

if TYPE_CHECKING:
    from sbeed.agents.q_sbeed.config import QConfig
    from sbeed.agents.sbeed.config import SBEEDConfig
    from sbeed.api import DDPG, PCL, SAC, SBEED, TRPO, Algorithm, DualAC, Score
    from sbeed.collect.record_dataset import record_dataset
    from sbeed.data.dataset import BadData, Dataset, from_arrays
    from sbeed.envs.base import EnvironmentFault, HostEnv, JaxEnv
    from sbeed.envs.noise import StochasticTransition
    from sbeed.storage.datasets import load_dataset, save_dataset
    from sbeed.storage.tensors import DamagedModel
    from sbeed.training.population import Diverged
    from sbeed.training.run import RunSpec, train, train_population
    from sbeed.training.session import resume
    from sbeed.training.trainer import Trainer
    from sbeed.types import EnvSpec, Transition


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sbeed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
