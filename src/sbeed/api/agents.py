"""The public agents, one class each. Their keywords are the fields of their configs, which type checkers know too."""

from typing import TYPE_CHECKING

from sbeed.agents.ddpg.config import DDPGConfig
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.registry import find
from sbeed.agents.sac.config import SACConfig
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.api.algorithm import Algorithm

if TYPE_CHECKING:
    from typing import Unpack

    from sbeed.api import settings
    from sbeed.envs.task import Env
    from sbeed.envs.vec_env import VecEnv


class SBEED(Algorithm):
    """Smoothed Bellman error embedding, in Q = V + lam log pi; the `paper` presets learn V and pi themselves."""

    agent = find("sbeed")
    config: QConfig | SBEEDConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.SBEEDPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.SBEEDSettings],
        ) -> None: ...


class PCL(Algorithm):
    """Path consistency learning: SBEED without a dual. `default` is its trust-region form, `paper` the plain one."""

    agent = find("pcl")
    config: SBEEDConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.PCLPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.PCLSettings],
        ) -> None: ...


class TRPO(Algorithm):
    """Trust region policy optimisation: on-policy natural gradients with a line search; NPG by preset="npg"."""

    agent = find("trpo")
    config: TRPOConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.TRPOPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.TRPOSettings],
        ) -> None: ...


class DualAC(Algorithm):
    """The dual actor-critic: V, a distribution of states and a policy in the Lagrangian of the Bellman equation."""

    agent = find("dual_ac")
    config: DualACConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.DualACPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.DualACSettings],
        ) -> None: ...


class DDPG(Algorithm):
    """Deep deterministic policy gradient: a deterministic policy, explored around. Boxes of actions only."""

    agent = find("ddpg")
    config: DDPGConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.DDPGPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.DDPGSettings],
        ) -> None: ...


class SAC(Algorithm):
    """Soft actor-critic, its second version: twin critics and an adapted temperature. Boxes of actions only."""

    agent = find("sac")
    config: SACConfig

    if TYPE_CHECKING:

        def __init__(
            self,
            policy: settings.SACPolicy | None = None,
            env: Env | VecEnv | None = None,
            **keywords: Unpack[settings.SACSettings],
        ) -> None: ...
