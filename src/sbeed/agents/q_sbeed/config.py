"""Every knob of the learner, with what it does, its range and, where the paper speaks of it, the paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class QConfig:
    # The objective
    gamma: float = knob(0.99, "discount", low=0, high=1, open=True, paper=".995")
    eta: float = knob(1.0, "weight of the dual term in L_eta; 0 is PCL", low=0, high=1, paper="grid .004-.1")
    backward: Literal["kappa", "descent"] = knob(
        "descent",
        "how the backward half of L_eta's gradient, through V(s'), is weighed: by kappa throughout, or by the least "
        "weight from kappa on at which Q's step still points down L_eta (`descent`)",
        paper="kappa",
    )
    kappa: float = knob(
        0.0, "weight of the backward half; 1 is the gradient of L_eta, 0 a semi-gradient", low=0, high=1, paper="1"
    )
    descent: float = knob(
        0.5, "least cosine between Q's step and the gradient of L_eta, with backward = descent", low=0, high=1
    )
    k: int = knob(4, "steps of a target", low=1, paper="grid 1-100")
    trace: float = knob(0.5, "weight passed on to later steps; 0 is one step, 1 plain k-step", low=0, high=1)
    lam: float = knob(0.1, "smoothing; with adapt_lam its start", low=0, open=True, paper="grid .001-.1")
    adapt_lam: bool = knob(True, "move lam until the entropy is entropy_target", paper="no")
    entropy_target: float = knob(
        -0.5, "entropy per dimension of a box; for discrete actions a share of the largest, log A"
    )
    prior: Literal["uniform", "behaviour"] = knob(
        "uniform", "what pi's entropy is relative to: nothing, or a clone of the policy that collected the data"
    )
    kl_target: float = knob(0.01, "KL from the clone that adapt_lam aims at", low=0, open=True)
    clone_steps: int = knob(2_000, "gradient steps that fit the clone, before the first update", low=1)

    # The dual, nu = rho - Q
    dual: Literal["head", "net", "linear", "none"] = knob(
        "head",
        "a linear head on Q's last hidden layer, a network, the head solved by least squares, or none, with eta 0",
        paper="net",
    )
    dual_ridge: float = knob(
        0.01,
        "ridge of the dual, in units of its features' mean square: nu is at most 1 / (1 + ridge) of the error",
        low=0,
    )
    dual_steps: int = knob(1, "gradient steps of the dual per update", low=1, paper="1, or until it has converged")

    # The steps
    Q_step_size: float = knob(1e-3, "of Q", low=0)
    dual_step_size: float = knob(
        0.5,
        "of nu: of plain steps for a head, whose features have unit norm, of Adam for a net",
        low=0,
        paper="grid .001-.1",
    )
    pi_step_size: float = knob(3e-4, "of pi, in a box", low=0, paper=".005")
    lam_step_size: float = knob(3e-4, "of log lam, with adapt_lam", low=0)
    momentum: float = knob(0.9, "Adam's beta_1 for Q and pi", low=0, high=1)
    pi_every: int = knob(1, "updates of Q for each one of pi and lam", low=1)
    average_rate: float = knob(
        0.001, "Polyak rate of the averaged policy used for evaluation; 1 is no averaging", low=0, high=1
    )
    slow_copy: bool = knob(False, "bootstrap from a slow copy of Q, which then is not differentiated unless kappa > 0")
    slow_rate: float = knob(0.005, "Polyak rate of that copy", low=0, high=1)

    # The models
    hidden: tuple[int, ...] = knob((128, 128), "widths of the hidden layers", low=1, high=16_384, paper="64 64")
    twins: int = knob(2, "Q networks, of which the smaller value counts", low=1, high=2, paper="1")
    norm: Literal["none", "last", "layer", "rms", "batch"] = knob(
        "last",
        "normalisation of Q's hidden layers: a layer norm of the last one alone or of all, by each row's root mean "
        "square, or by statistics of the joint pass over s and s'",
    )
    normalize_observations: bool = knob(True, "by running mean and standard deviation", paper="not said")
    normalize_rewards: bool = knob(
        True, "so that the discounted return has a standard deviation of return_scale", paper="not said"
    )
    return_scale: float = knob(100.0, "that standard deviation; Adam moves Q in absolute steps", low=0, open=True)

    # The data
    batch_size: int = knob(128, "targets per update", low=1, paper="grid 10000-40000")
    replay_capacity: int = knob(1_000_000, "transitions kept", low=1, high=1e9)
    warmup: int = knob(1_000, "uniformly random steps before the first update", low=1)
    steps_per_iteration: int = knob(64, "environment steps between updates", low=1, paper="grid 1000-3000")
    updates_per_iteration: int = knob(128, "updates after each of these rounds", low=1, paper="not said")
    overlap: bool = knob(True, "updates use the data that precede a round's steps, so that both run at the same time")

    def unread(self, discrete: bool) -> dict[str, str]:
        """The knobs that this config does not read, each with what would make it read."""
        no_dual, no_lam = "a dual (`dual`)", "an adapted lam (`adapt_lam`)"
        rules = (
            (self.k == 1, ("trace",), "paths of several steps (`k`)"),
            (
                self.kappa == 0 and self.backward == "kappa" and self.dual != "none",
                ("eta",),
                "a backward half of the gradient (`kappa`)",
            ),
            (self.backward == "kappa", ("descent",), "a backward half that is weighed by it (`backward`)"),
            (not self.adapt_lam, ("lam_step_size", "kl_target"), no_lam),
            (not self.adapt_lam and discrete, ("entropy_target",), no_lam),
            (self.prior == "uniform", ("clone_steps", "kl_target"), "a clone of the behaviour (`prior`)"),
            (self.dual == "none", ("dual_ridge", "dual_step_size", "dual_steps"), no_dual),
            (self.dual == "linear", ("dual_step_size", "dual_steps"), "a dual that takes steps (`dual`)"),
            (discrete, ("pi_step_size",), "a box of actions: pi is read off Q"),
            (not self.slow_copy, ("slow_rate",), "a slow copy of Q (`slow_copy`)"),
            (not self.normalize_rewards, ("return_scale",), "normalised rewards (`normalize_rewards`)"),
        )
        return {name: needs for unread, names, needs in rules if unread for name in names}

    @property
    def on_policy(self) -> bool:
        """Never: the loss is minimised over any distribution of actions."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Updates do not wait for an episode's end."""
        return None
