"""Every knob of the learner, with what it does, its range and, where the paper speaks of it, the paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class QConfig:
    # The objective
    gamma: float = knob(
        0.99,
        "discount of a reward one step later; larger looks further ahead and learns more slowly",
        low=0,
        high=1,
        open=True,
        paper=".995",
    )
    eta: float = knob(
        1.0,
        "weight of the dual term in L_eta; larger removes more of the bias of noisy transitions and relies "
        "more on the dual; 0 is PCL",
        low=0,
        high=1,
        paper="grid .004-.1",
    )
    backward: Literal["kappa", "descent"] = knob(
        "descent",
        "how the backward half of the gradient of L_eta, the one through V(s'), is weighted: always by kappa,"
        " or by the least weight from kappa on with which the step of Q still descends L_eta (descent)",
        paper="kappa",
    )
    kappa: float = knob(
        0.5,
        "weight of the backward half; 1 is the gradient of L_eta, 0 a semi-gradient; larger is steadier and "
        "learns more slowly",
        low=0,
        high=1,
        paper="1",
    )
    descent: float = knob(
        0.5,
        "least cosine between the step of Q and the gradient of L_eta when backward is descent; larger is "
        "nearer to the gradient and learns more slowly",
        low=0,
        high=1,
    )
    k: int = knob(4, "steps of a target; more carry rewards further and add variance", low=1, paper="grid 1-100")
    trace: float = knob(
        0.5, "weight of later steps of a target; 0 uses one step, 1 all k; larger adds variance", low=0, high=1
    )
    lam: float = knob(
        0.1,
        "weight of the entropy in the target (smoothing); larger keeps pi more random; the start value with adapt_lam",
        low=0,
        open=True,
        paper="grid .001-.1",
    )
    adapt_lam: bool = knob(
        True, "adapt lam until the entropy of pi is entropy_target, or its KL from the clone is kl_target", paper="no"
    )
    entropy_target: float = knob(
        -0.5,
        "entropy that adapt_lam aims at: per dimension of a box, or as a share of the largest, log A, for "
        "discrete actions; larger explores more",
    )
    prior: Literal["uniform", "behaviour"] = knob(
        "uniform",
        "what the entropy of pi is measured against: uniform actions, or a clone of the policy that collected"
        " the data (behaviour)",
    )
    kl_target: float = knob(
        0.01, "KL from the clone that adapt_lam aims at; larger lets pi leave the data further", low=0, open=True
    )
    clone_steps: int = knob(
        2_000, "gradient steps that fit the clone before the first update; more fit it better and cost time", low=1
    )

    # The dual, nu = rho - Q
    dual: Literal["head", "net", "linear", "none"] = knob(
        "head",
        "model of nu: a linear head on the last hidden layer of Q, trained by gradient steps (head) or solved"
        " by least squares (linear), a network of its own (net), or none, which needs eta 0",
        paper="net",
    )
    dual_ridge: float = knob(
        0.01,
        "ridge of the dual, in units of the mean square of its features; nu explains at most 1 / (1 + ridge) "
        "of the error, so larger corrects less",
        low=0,
    )
    dual_steps: int = knob(
        1,
        "gradient steps of the dual per update; more fit it better and cost time",
        low=1,
        paper="1, or until it has converged",
    )

    # The steps
    Q_step_size: float = knob(1e-3, "step size of Q; larger learns faster and less stably", low=0)
    dual_step_size: float = knob(
        0.5,
        "step size of nu: of plain gradient steps for a head, whose features have unit norm, of Adam for a "
        "net; larger follows Q more closely and is noisier",
        low=0,
        paper="grid .001-.1",
    )
    pi_step_size: float = knob(
        3e-4, "step size of pi on a box of actions; larger learns faster and less stably", low=0, paper=".005"
    )
    lam_step_size: float = knob(3e-4, "step size of log lam, used with adapt_lam", low=0)
    momentum: float = knob(
        0.5, "beta_1 of Adam for Q and pi; larger smooths the steps more and reacts later", low=0, high=1
    )
    pi_every: int = knob(1, "updates of Q for each update of pi and lam; more save time and let pi lag behind Q", low=1)
    average_rate: float = knob(
        0.001,
        "Polyak rate of the averaged policy used for evaluation; smaller averages longer; 1 is no averaging",
        low=0,
        high=1,
    )
    slow_copy: bool = knob(False, "bootstrap from a slow copy of Q, which is differentiated only if kappa > 0")
    slow_rate: float = knob(0.005, "Polyak rate of that slow copy; larger is quicker and less stable", low=0, high=1)

    # The models
    hidden: tuple[int, ...] = knob(
        (128, 128), "widths of the hidden layers; wider fits more and costs time", low=1, high=16_384, paper="64 64"
    )
    twins: int = knob(
        2,
        "number of Q networks; with 2 the smaller value counts, which avoids optimistic values and costs time",
        low=1,
        high=2,
        paper="1",
    )
    norm: Literal["none", "last", "layer", "rms", "batch"] = knob(
        "last",
        "normalisation in Q: none, a layer norm of the last hidden layer (last) or of all of them (layer), "
        "division by each row's root mean square (rms), or batch norm over the joint pass on s and s' (batch)",
    )
    normalize_observations: bool = knob(
        True, "normalise observations by their running mean and standard deviation", paper="not said"
    )
    least_std: float = knob(
        0.3,
        "least standard deviation that an observation is divided by; a larger one keeps those small that are nearly"
        " always constant, such as contact forces, and hides those whose unit is small",
        low=0,
    )
    normalize_rewards: bool = knob(
        True, "scale rewards so that the discounted return has the standard deviation return_scale", paper="not said"
    )
    return_scale: float = knob(
        100.0,
        "standard deviation of the scaled discounted return; Adam moves Q in absolute steps, so a larger one "
        "learns more slowly",
        low=0,
        open=True,
    )

    # The data
    batch_size: int = knob(
        128, "targets per update; larger has less noise and costs time", low=1, paper="grid 10000-40000"
    )
    replay_capacity: int = knob(
        1_000_000, "transitions kept; a larger replay needs more memory and holds older data", low=1, high=1e9
    )
    warmup: int = knob(
        2_500,
        "steps of uniformly random actions before the first update; more give broader first data and a later start",
        low=1,
    )
    steps_per_iteration: int = knob(
        64,
        "environment steps between rounds of updates; more is faster per step and reacts later",
        low=1,
        paper="grid 1000-3000",
    )
    updates_per_iteration: int = knob(
        128, "updates after each round of steps; more learn more from a step and cost time", low=1, paper="not said"
    )
    overlap: bool = knob(
        True, "run updates while the next steps are collected, on the data from before them: faster, one round later"
    )

    def unread(self, discrete: bool) -> dict[str, str]:
        """The knobs that this config does not read, each with the setting that would make it read them."""
        no_dual, no_lam = "a dual (`dual`)", "an adapted lam (`adapt_lam`)"
        rules = (
            (self.k == 1, ("trace",), "paths of several steps (`k`)"),
            (
                self.kappa == 0 and self.backward == "kappa" and self.dual != "none",
                ("eta",),
                "a backward half of the gradient (`kappa`)",
            ),
            (self.backward == "kappa", ("descent",), "a backward half weighted by it (`backward`)"),
            (not self.adapt_lam, ("lam_step_size", "kl_target"), no_lam),
            (not self.adapt_lam and discrete, ("entropy_target",), no_lam),
            (self.prior == "uniform", ("clone_steps", "kl_target"), "a clone of the behaviour (`prior`)"),
            (self.dual == "none", ("dual_ridge", "dual_step_size", "dual_steps"), no_dual),
            (self.dual == "linear", ("dual_step_size", "dual_steps"), "a dual that takes steps (`dual`)"),
            (discrete, ("pi_step_size",), "a box of actions: pi is read off Q"),
            (not self.slow_copy, ("slow_rate",), "a slow copy of Q (`slow_copy`)"),
            (not self.normalize_observations, ("least_std",), "normalised observations (`normalize_observations`)"),
            (not self.normalize_rewards, ("return_scale",), "normalised rewards (`normalize_rewards`)"),
        )
        return {name: needs for unread, names, needs in rules if unread for name in names}

    @property
    def on_policy(self) -> bool:
        """Always False: the loss may be minimised over any distribution of actions."""
        return False

    @property
    def trajectories_per_iteration(self) -> None:
        """Always None: updates do not wait for an episode's end."""
        return None
