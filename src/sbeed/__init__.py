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
    "Logger": "sbeed.training.logger",
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

if TYPE_CHECKING:  # `as` exports a name by the rules of type checkers
    from sbeed.agents.q_sbeed.config import QConfig as QConfig
    from sbeed.agents.sbeed.config import SBEEDConfig as SBEEDConfig
    from sbeed.api import DDPG as DDPG
    from sbeed.api import PCL as PCL
    from sbeed.api import SAC as SAC
    from sbeed.api import SBEED as SBEED
    from sbeed.api import TRPO as TRPO
    from sbeed.api import Algorithm as Algorithm
    from sbeed.api import DualAC as DualAC
    from sbeed.api import Score as Score
    from sbeed.collect.record_dataset import record_dataset as record_dataset
    from sbeed.data.dataset import BadData as BadData
    from sbeed.data.dataset import Dataset as Dataset
    from sbeed.data.dataset import from_arrays as from_arrays
    from sbeed.envs.base import EnvironmentFault as EnvironmentFault
    from sbeed.envs.base import HostEnv as HostEnv
    from sbeed.envs.base import JaxEnv as JaxEnv
    from sbeed.envs.noise import StochasticTransition as StochasticTransition
    from sbeed.storage.datasets import load_dataset as load_dataset
    from sbeed.storage.datasets import save_dataset as save_dataset
    from sbeed.storage.tensors import DamagedModel as DamagedModel
    from sbeed.training.logger import Logger as Logger
    from sbeed.training.population import Diverged as Diverged
    from sbeed.training.run import RunSpec as RunSpec
    from sbeed.training.run import train as train
    from sbeed.training.run import train_population as train_population
    from sbeed.training.session import resume as resume
    from sbeed.training.trainer import Trainer as Trainer
    from sbeed.types import EnvSpec as EnvSpec
    from sbeed.types import Transition as Transition


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sbeed' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
