"""The agents' keywords, for type checkers. tools/write_settings.py writes this from the configs: change those."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from sbeed.api.algorithm import Algorithm
from sbeed.envs.task import OneEnv
from sbeed.training.experience import Rule


class Options(TypedDict, total=False):
    """Keywords that all agents share."""

    seed: int | None
    eval_env: OneEnv | None
    behaviour: Algorithm | Rule | Literal["current"]
    noise: float


SBEEDPolicy = Literal["MlpPolicy", "RbfPolicy", "TabularPolicy"]


class SBEEDSettings(Options, total=False):
    """Keywords of `SBEED`."""

    preset: Literal["default", "gradient", "offline", "paper", "paper-exact", "paper-on-policy"]
    gamma: float
    eta: float
    backward: Literal["kappa", "descent"]
    kappa: float
    descent: float
    k: int
    trace: float
    lam: float
    adapt_lam: bool
    entropy_target: float
    prior: Literal["uniform", "behaviour", "lagged"]
    kl_target: float
    clone_steps: int
    dual: Literal["head", "net", "linear", "none"]
    dual_ridge: float
    dual_steps: int
    Q_step_size: float
    dual_step_size: float
    pi_step_size: float
    lam_step_size: float
    momentum: float
    pi_every: int
    average_rate: float
    slow_copy: bool
    slow_rate: float
    hidden: Sequence[int]
    twins: int
    norm: Literal["none", "last", "layer", "rms", "batch"]
    normalize_observations: bool
    least_std: float
    normalize_rewards: bool
    return_scale: float
    batch_size: int
    replay_capacity: int
    warmup: int
    steps_per_iteration: int
    updates_per_iteration: int
    overlap: bool
    lam_counts: Literal["scaled", "raw"]
    prior_rate: float
    dual_features: Literal["rbf", "hidden"]
    dual_sees: Literal["first", "all"]
    dual_tolerance: float
    dual_l2: float
    squash: bool
    features: int
    initial_std: float
    pi_credit: Literal["first", "all"]
    pi_prox: Literal["euclidean", "kl"]
    kl_radius: float
    fisher_ridge: float
    whiten: bool
    centre: bool
    V_step_size: float
    optimizer: Literal["adam", "sgd"]
    max_grad_norm: float | None
    step_decay: float
    activation: Literal["relu", "tanh"]
    scale_rounds: int
    segment_length: int | None
    all_starts: bool
    newest: int | None
    trajectories_per_iteration: int | None
    on_policy: bool
    pi_updates_per_iteration: int | None
    pi_batch_size: int
    pi_newest: int | None


PCLPolicy = Literal["MlpPolicy", "RbfPolicy", "TabularPolicy"]


class PCLSettings(Options, total=False):
    """Keywords of `PCL`."""

    preset: Literal["default", "paper"]
    gamma: float
    eta: float
    lam: float
    lam_counts: Literal["scaled", "raw"]
    prior: Literal["uniform", "lagged"]
    prior_rate: float
    adapt_lam: bool
    kl_target: float
    k: int
    trace: float
    kappa: float
    dual: Literal["net", "linear", "none"]
    dual_features: Literal["rbf", "hidden"]
    dual_sees: Literal["first", "all"]
    dual_steps: int
    dual_tolerance: float
    dual_l2: float
    squash: bool
    features: int
    initial_std: float
    pi_credit: Literal["first", "all"]
    pi_prox: Literal["euclidean", "kl"]
    kl_radius: float
    fisher_ridge: float
    whiten: bool
    centre: bool
    V_step_size: float
    pi_step_size: float
    dual_step_size: float
    lam_step_size: float
    optimizer: Literal["adam", "sgd"]
    max_grad_norm: float | None
    step_decay: float
    slow_rate: float
    hidden: Sequence[int]
    activation: Literal["relu", "tanh"]
    normalize_observations: bool
    scale_rounds: int
    normalize_rewards: bool
    batch_size: int
    segment_length: int | None
    all_starts: bool
    replay_capacity: int
    newest: int | None
    warmup: int
    steps_per_iteration: int
    trajectories_per_iteration: int | None
    on_policy: bool
    updates_per_iteration: int
    pi_updates_per_iteration: int | None
    pi_batch_size: int
    pi_newest: int | None


TRPOPolicy = Literal["MlpPolicy", "RbfPolicy", "TabularPolicy"]


class TRPOSettings(Options, total=False):
    """Keywords of `TRPO`."""

    preset: Literal["default", "paper", "npg"]
    gamma: float
    features: int
    initial_std: float
    kl_radius: float
    fisher_ridge: float
    V: Literal["mlp", "linear"]
    V_step_size: float
    V_updates: int
    V_batch_size: int
    V_ridge: float
    hidden: Sequence[int]
    activation: Literal["relu", "tanh"]
    normalize_observations: bool
    normalize_rewards: bool
    steps_per_iteration: int
    trajectories_per_iteration: int | None
    replay_capacity: int
    gae_lambda: float
    line_search: bool


DualACPolicy = Literal["MlpPolicy", "RbfPolicy", "TabularPolicy"]


class DualACSettings(Options, total=False):
    """Keywords of `DualAC`."""

    preset: Literal["default", "paper"]
    gamma: float
    features: int
    initial_std: float
    kl_radius: float
    fisher_ridge: float
    V: Literal["mlp", "linear"]
    V_step_size: float
    V_updates: int
    V_batch_size: int
    V_ridge: float
    hidden: Sequence[int]
    activation: Literal["relu", "tanh"]
    normalize_observations: bool
    normalize_rewards: bool
    steps_per_iteration: int
    trajectories_per_iteration: int | None
    replay_capacity: int
    k: int
    eta_V: float
    alpha_step_size: float


DDPGPolicy = Literal["MlpPolicy", "RbfPolicy", "TabularPolicy"]


class DDPGSettings(Options, total=False):
    """Keywords of `DDPG`."""

    preset: Literal["default", "paper"]
    gamma: float
    features: int
    noise_std: float
    noise_theta: float
    Q_step_size: float
    pi_step_size: float
    slow_rate: float
    hidden: Sequence[int]
    activation: Literal["relu", "tanh"]
    normalize_observations: bool
    normalize_rewards: bool
    batch_size: int
    replay_capacity: int
    warmup: int
    steps_per_iteration: int
    overlap: bool
    updates_per_iteration: int


SACPolicy = Literal["MlpPolicy"]


class SACSettings(Options, total=False):
    """Keywords of `SAC`."""

    preset: Literal["default"]
    gamma: float
    lam: float
    entropy_target: float
    Q_step_size: float
    pi_step_size: float
    lam_step_size: float
    slow_rate: float
    hidden: Sequence[int]
    batch_size: int
    replay_capacity: int
    warmup: int
    steps_per_iteration: int
    overlap: bool
    updates_per_iteration: int
