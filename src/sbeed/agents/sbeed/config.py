"""Every knob of the learner, with what it does and, where the paper speaks of it, the paper's value."""

from dataclasses import dataclass, fields

import jax


@dataclass(frozen=True)
class SBEEDConfig:
    """Floats may be traced, so that members of a population may differ in them; the others set shapes: static."""

    # The objective
    gamma: float = 0.99  # discount, (0, 1); paper .995
    eta: float = 1.0  # weight of the dual term, [0, 1]; paper grid .004-.1
    lam: float = 0.2  # smoothing; paper grid .001-.1. With adapt_lam: its start
    trace: float = 0.0  # weight that passes on to longer targets, [0, 1]; 0 is one-step
    kappa: float = 0.0  # share of the bootstrap that V's own gradient sees, [0, 1]; 1 is the paper, 0 the slow copy
    replay_share: float = 0.0  # share of V's loss on replayed actions (the paper's); the rest on actions drawn from pi
    replay_loss: bool = True  # False leaves the loss on replayed actions out of the program: replay_share counts as 0
    log_pi_clip: float = 1e6  # bound on |log pi| of the later actions of a trace, per action dimension
    dual_log_pi: float = 0.0  # share of later actions' log pi taken as (Q - V) / lam, its optimum, [0, 1]
    adapt_lam: bool = True  # move lam towards an entropy of `entropy_target` per action dimension
    entropy_target: float = -1.0  # per dimension of a box; for discrete actions, share of log A

    # The steps
    V_step_size: float = 1e-3  # Adam, as the dual's and the policy's
    pi_step_size: float = 3e-4
    dual_step_size: float = 1e-3
    lam_step_size: float = 3e-4
    slow_rate: float = 0.005  # share of V that its slow copy takes over per update

    # The shapes
    width: int = 256
    layer_norm: bool = False
    batch_size: int = 256
    segment_length: int = 1  # transitions in a window: the longest target
    replay_capacity: int = 1_000_000
    warmup: int = 5_000  # uniformly random steps before the first update
    steps_per_iteration: int = 64
    updates_per_iteration: int = 64


_FLOATS = [f.name for f in fields(SBEEDConfig) if f.type in (float, "float")]
_STATIC = [f.name for f in fields(SBEEDConfig) if f.name not in _FLOATS]
jax.tree_util.register_dataclass(SBEEDConfig, data_fields=_FLOATS, meta_fields=_STATIC)
