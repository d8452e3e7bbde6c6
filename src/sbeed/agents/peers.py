"""Names of Stable-Baselines3 and other libraries, with what to write here instead: for messages and docs/migration.md.

Free of jax, so that the command line can read it.
"""

from collections.abc import Iterable
from typing import NamedTuple


class Peer(NamedTuple):
    """What to write for another library's name."""

    python: str = ""  # one sentence, for keywords of an agent
    flag: str = ""  # the same for the command line, if it is another one
    ends: str = ""  # the fields of the config whose names end so do the same


_NOISE = "exploration noise is the policy's own (`lam`, `entropy_target`; `noise_std` of DDPG)"
_NETWORKS = "`hidden` sets the widths of the hidden layers, such as hidden=(256, 256)"
_REPLAY = "the replay is an array on the device; `replay_capacity` sets its size"
_ROWS = "`agent.logger` has a row every `log_interval` iterations, learn(progress_bar=True) a bar"
_EVENTS = "learn(out=DIR) writes TensorBoard's events to DIR/tensorboard"
_DEVICE = "JAX chooses the device; set the environment variable JAX_PLATFORMS to cpu or cuda"
_SLOW = "`slow_rate` moves a slow copy a little at every update"

PEERS: dict[str, Peer] = {
    # keywords of the algorithms
    "learning_rate": Peer(ends="step_size"),
    "buffer_size": Peer(ends="replay_capacity"),
    "learning_starts": Peer(ends="warmup"),
    "train_freq": Peer(ends="steps_per_iteration"),
    "n_steps": Peer(ends="steps_per_iteration"),
    "gradient_steps": Peer(ends="updates_per_iteration"),
    "tau": Peer(ends="slow_rate"),
    "ent_coef": Peer(ends="lam"),
    "net_arch": Peer(ends="hidden"),
    "target_kl": Peer(ends="kl_radius"),
    "target_entropy": Peer(
        "`entropy_target` of SBEED is the entropy per dimension of a box, or a share of log A", ends="entropy_target"
    ),
    "policy_kwargs": Peer(_NETWORKS),
    "policy_delay": Peer(ends="pi_every"),
    "action_noise": Peer(_NOISE),
    "use_sde": Peer(_NOISE),
    "sde_sample_freq": Peer(_NOISE),
    "replay_buffer_class": Peer(_REPLAY),
    "replay_buffer_kwargs": Peer(_REPLAY),
    "optimize_memory_usage": Peer(_REPLAY),
    "target_update_interval": Peer(_SLOW),
    "n_epochs": Peer(ends="updates_per_iteration"),
    "stats_window_size": Peer("`train_return` is the mean of the last 20 episodes"),
    "monitor_wrapper": Peer("returns and lengths are counted without a wrapper; one in a Monitor works too"),
    "verbose": Peer(_ROWS, "--quiet and --verbose choose what is printed"),
    "tensorboard_log": Peer(_EVENTS, "--out DIR has TensorBoard's events in DIR/tensorboard"),
    "device": Peer(_DEVICE),
    # learn
    "total_timesteps": Peer("it is the argument of `learn`: learn(total_timesteps)", "use --steps"),
    "tb_log_name": Peer(_EVENTS, "--out DIR has TensorBoard's events in DIR/tensorboard"),
    "reset_num_timesteps": Peer("`num_timesteps` always counts on; a new agent begins at 0"),
    "log_interval": Peer("it is an argument of `learn`", "--evaluate-every sets the steps between rows"),
    "eval_freq": Peer("learn(out=DIR, evaluate_every=STEPS) evaluates", "use --evaluate-every"),
    "n_eval_episodes": Peer("learn(out=DIR, episodes=COUNT) evaluates", "use --episodes"),
    "eval_episodes": Peer("learn(out=DIR, episodes=COUNT) evaluates", "use --episodes"),
    "save_freq": Peer("learn(out=DIR, checkpoint_every=STEPS) makes checkpoints", "use --checkpoint-every"),
    # scripts
    "algo": Peer("each algorithm is a class: SBEED, PCL, TRPO, DualAC, DDPG, SAC", "use --agent"),
    "env_id": Peer("the environment is the second argument", "use --env"),
    "n_timesteps": Peer("it is the argument of `learn`", "use --steps"),
    "n_envs": Peer(
        "give gymnasium.make_vec(NAME, COUNT) as the environment",
        "one environment serves each agent; --seeds trains several agents and --workers steps them in processes",
    ),
    "num_envs": Peer("give gymnasium.make_vec(NAME, COUNT) as the environment", "--seeds trains several agents"),
    "log_folder": Peer("learn(out=DIR)", "use --out"),
    "cuda": Peer(_DEVICE),
    "track": Peer(_EVENTS, "--out DIR has TensorBoard's events in DIR/tensorboard"),
    "capture_video": Peer("`sbeed video RUN` films a finished run"),
}


def ours_for(name: str, fields: Iterable[str], *, flag: bool = False) -> list[str]:
    """The fields that do what another library's name does."""
    ends = PEERS[name].ends
    ours = [field for field in fields if ends and field.endswith(ends)]
    return ["--" + field.replace("_", "-") for field in ours] if flag else ours


def answer(name: str, fields: Iterable[str], *, flag: bool = False) -> str | None:
    """One sentence on another library's name, None for a name that is not one.   fields: those of the config"""
    peer = PEERS.get(name)
    if peer is None:
        return None
    ours = ours_for(name, fields, flag=flag)
    if ours:
        return f"did you mean {' or '.join(ours)}?"
    said = (peer.flag if flag else "") or peer.python
    return said or f"this algorithm has no setting like it ({peer.ends} of others)"
