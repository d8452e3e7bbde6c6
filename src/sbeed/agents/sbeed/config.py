"""Every knob of the learner, with what it does, its range and, where the paper speaks of it, the paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class SBEEDConfig:
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
    lam: float = knob(
        0.2,
        "weight of the entropy in the target (smoothing); larger keeps pi more random and biases V more; the "
        "start value with adapt_lam",
        low=0,
        open=True,
        paper="grid .001-.1",
    )
    lam_counts: Literal["scaled", "raw"] = knob(
        "scaled",
        "rewards that lam is weighed against where rewards are normalised: those that the learner sees (scaled), or "
        "those of the environment (raw), so that one lam means the same as without normalisation",
        paper="raw",
    )
    prior: Literal["uniform", "lagged"] = knob(
        "uniform",
        "what the entropy of pi is measured against: uniform actions, or a slow copy of pi (lagged), which "
        "makes a trust region",
    )
    prior_rate: float = knob(
        0.01, "rate at which the lagged copy follows pi, per update; larger loosens the trust region", low=0, high=1
    )
    adapt_lam: bool = knob(False, "adapt lam until the KL of pi from the lagged copy is kl_target", paper="no")
    kl_target: float = knob(
        0.01,
        "KL from the lagged copy that adapt_lam aims at; larger lets pi move faster and less safely",
        low=0,
        open=True,
    )
    k: int = knob(
        1, "longest target, in steps; larger carries rewards further and adds variance", low=1, paper="grid 1-100"
    )
    trace: float = knob(
        1.0,
        "weight of longer targets against shorter ones; 0 uses one step, 1 the full k steps; larger adds variance",
        low=0,
        high=1,
    )
    kappa: float = knob(
        0.0,
        "share of the bootstrap V(s') that is differentiated, as in the gradient of L_eta; the rest is read "
        "from V's slow copy; larger is nearer to the paper and slower",
        low=0,
        high=1,
        paper="1",
    )

    # The dual
    dual: Literal["net", "linear", "none"] = knob(
        "net",
        "model of nu = rho - V: a network, or a linear model solved exactly, or none (then eta must be 0)",
        paper="net",
    )
    dual_features: Literal["rbf", "hidden"] = knob(
        "rbf", "features of a linear dual: random Fourier features, or the last hidden layer of a network"
    )
    dual_sees: Literal["first", "all"] = knob(
        "first", "actions that rho takes as input: the first one of a target, or all k", paper="all (erratum E2)"
    )
    dual_steps: int = knob(
        1, "largest number of dual steps per update; more fit the dual better and cost time; 1 is Algorithm 2", low=1
    )
    dual_tolerance: float = knob(
        0.0,
        "stop the dual steps when one lowers the dual loss by less than this share; larger stops earlier",
        low=0,
        high=1,
    )
    dual_l2: float = knob(
        0.0,
        "penalty on |nu|^2 in the dual loss, or the ridge of a linear dual; larger makes the dual correct less",
        low=0,
    )

    # The policy
    policy: Literal["mlp", "rbf", "table"] = knob(
        "mlp", "model of pi: a network, random Fourier features, or a table for discrete observations", paper="rbf"
    )
    squash: bool = knob(True, "pass the box actions of an mlp policy through tanh", paper="no")
    features: int = knob(
        100,
        "number of random features of an rbf policy or a linear dual; more fit better and cost time",
        low=1,
        paper="100; 500 on HalfCheetah",
    )
    initial_std: float = knob(
        1.0,
        "standard deviation of the actions of a new policy that is not squashed; larger explores more at first",
        low=0,
        open=True,
    )
    pi_credit: Literal["first", "all"] = knob(
        "all", "actions of a target that its error gives credit to: the first one, or all k", paper="all"
    )
    pi_prox: Literal["euclidean", "kl"] = knob(
        "euclidean", "distance that limits a step of pi: parameters (Adam or SGD) or KL (natural gradient)", paper="kl"
    )
    kl_radius: float = knob(
        0.02,
        "largest KL of one policy step when pi_prox is kl; larger steps learn faster and less safely",
        low=0,
        open=True,
    )
    fisher_ridge: float = knob(
        1e-4,
        "damping of the natural gradient, relative to the mean diagonal of the Fisher matrix; larger gives "
        "shorter, steadier steps",
        low=0,
    )
    whiten: bool = knob(False, "divide the weights of the score by their root mean square", paper="no")
    centre: bool = knob(False, "subtract the mean from the weights of the score as well; biased off-policy", paper="no")

    # The steps
    V_step_size: float = knob(1e-3, "step size of V; larger learns faster and less stably", low=0, paper="grid .001-.1")
    pi_step_size: float = knob(
        3e-4, "step size of pi; larger learns faster and less stably", low=0, paper=".005 off-policy, .01 on-policy"
    )
    dual_step_size: float = knob(
        1e-3,
        "step size of the dual; larger follows the other players more closely and is noisier",
        low=0,
        paper="grid .001-.1",
    )
    lam_step_size: float = knob(3e-4, "step size of log lam, used with adapt_lam", low=0)
    optimizer: Literal["adam", "sgd"] = knob("adam", "optimiser of steps that are Euclidean", paper="adam")
    max_grad_norm: float | None = knob(
        None, "scale longer gradients down to this norm; unset: no limit", low=0, open=True
    )
    step_decay: float = knob(0.0, "step sizes fall as 1 / (1 + step_decay * iteration); larger falls sooner", low=0)
    slow_rate: float = knob(
        0.005,
        "rate at which the slow copy follows V, per update; larger is quicker and less stable; 1 makes it V itself",
        low=0,
        high=1,
    )

    # The models
    hidden: tuple[int, ...] = knob(
        (256, 256), "widths of the hidden layers; wider fits more and costs time", low=1, high=16_384, paper="64 64"
    )
    activation: Literal["relu", "tanh"] = knob("relu", "activation of the hidden layers", paper="tanh")
    normalize_observations: bool = knob(
        False, "normalise observations by their running mean and standard deviation", paper="not said"
    )
    scale_rounds: int = knob(25, "rounds during which the scale of observations is updated; then it is frozen", low=1)
    normalize_rewards: bool = knob(
        False, "divide rewards by the running standard deviation of the discounted return", paper="not said"
    )

    # The data
    batch_size: int = knob(
        256, "targets per update; larger has less noise and costs time", low=1, paper="grid 10000-40000"
    )
    segment_length: int | None = knob(None, "consecutive transitions sampled together, at least k; unset: k", low=1)
    all_starts: bool = knob(
        False, "start a target at every transition of a segment, not at the first alone", paper="not said"
    )
    replay_capacity: int = knob(
        1_000_000, "transitions kept; a larger replay needs more memory and holds older data", low=1, high=1e9
    )
    newest: int | None = knob(None, "sample among this many newest transitions only; unset: the whole replay", low=1)
    warmup: int = knob(
        5_000,
        "steps of uniformly random actions before the first update; more give broader first data and a later "
        "start; 0 only if on_policy",
        low=0,
    )
    steps_per_iteration: int = knob(
        64,
        "environment steps between rounds of updates; more is faster per step and reacts later",
        low=1,
        paper="grid 1000-3000",
    )
    trajectories_per_iteration: int | None = knob(
        None,
        "episodes to finish before a round of updates, checked after every steps_per_iteration steps; unset: "
        "no such wait",
        low=1,
        paper="52 on-policy",
    )
    on_policy: bool = knob(False, "forget the data after each round of updates")
    updates_per_iteration: int = knob(
        64, "updates after each round of steps; more learn more from a step and cost time", low=1, paper="not said"
    )
    pi_updates_per_iteration: int | None = knob(
        None, "policy steps per round, made after those of V and the dual; unset: one with each of them", low=1
    )
    pi_batch_size: int = knob(4096, "targets of each such policy step; larger has less noise and costs time", low=1)
    pi_newest: int | None = knob(
        None, "newest transitions that each such policy step samples among; unset: the same as for V", low=1
    )

    # Fields that the trainer reads of every agent.
    overlap = False

    def unread(self, discrete: bool) -> dict[str, str]:
        """The knobs that this config does not read, each with what would make it read."""
        solved = self.dual == "linear" and self.dual_features == "rbf"
        of_dual = ("dual_features", "dual_sees", "dual_steps", "dual_tolerance", "dual_l2", "dual_step_size")
        rules = (
            (self.k == 1, ("trace", "dual_sees"), "targets of several steps (`k`)"),
            (self.kappa == 1, ("slow_rate",), "a slow copy's share of the bootstrap (`kappa`)"),
            (self.prior == "uniform", ("prior_rate",), "a lagged copy of pi (`prior`)"),
            (not self.adapt_lam, ("kl_target", "lam_step_size"), "an adapted lam (`adapt_lam`)"),
            (self.dual_steps == 1, ("dual_tolerance",), "several steps of the dual (`dual_steps`)"),
            (self.dual == "net", ("dual_features",), "a linear dual (`dual`)"),
            (solved, ("dual_steps", "dual_tolerance", "dual_step_size"), "a dual that takes steps (`dual`)"),
            (self.dual == "none", of_dual, "a dual (`dual`)"),
            (self.policy != "rbf" and not solved, ("features",), "random features (`policy` or `dual_features`)"),
            (self.policy != "mlp" or discrete, ("squash",), "an mlp for a box of actions (`policy`)"),
            (discrete, ("initial_std",), "a box of actions"),
            (self.policy == "mlp" and self.squash, ("initial_std",), "a policy that is not squashed (`squash`)"),
            (self.pi_prox == "euclidean", ("kl_radius", "fisher_ridge"), "steps of pi in KL (`pi_prox`)"),
            (not self.normalize_rewards, ("lam_counts",), "normalised rewards (`normalize_rewards`)"),
            (not self.normalize_observations, ("scale_rounds",), "normalised observations (`normalize_observations`)"),
            (
                self.pi_updates_per_iteration is None,
                ("pi_batch_size", "pi_newest"),
                "policy steps of their own (`pi_updates_per_iteration`)",
            ),
        )
        return {name: needs for unread, names, needs in rules if unread for name in names}

    @property
    def length(self) -> int:
        """Transitions in a sampled segment."""
        return self.segment_length or self.k
