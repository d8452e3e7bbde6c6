"""Every knob of the learner, with what it does, its range and, where the paper speaks of it, the paper's value.

Floats may be traced, so that members of a population may differ in them; all other fields set shapes or choose code.
"""

from dataclasses import dataclass
from typing import Literal

from sbeed.agents.knobs import knob


@dataclass(frozen=True)
class SBEEDConfig:
    # The objective
    gamma: float = knob(0.99, "discount", low=0, high=1, open=True, paper=".995")
    eta: float = knob(1.0, "weight of the dual term in L_eta; 0 is PCL", low=0, high=1, paper="grid .004-.1")
    lam: float = knob(0.2, "smoothing; with adapt_lam its start", low=0, open=True, paper="grid .001-.1")
    prior: Literal["uniform", "lagged"] = knob(
        "uniform", "what pi's entropy is relative to: nothing, or a slow copy of pi, which makes a trust region"
    )
    prior_rate: float = knob(0.01, "share of pi that a lagged copy takes over per update", low=0, high=1)
    adapt_lam: bool = knob(False, "move lam until the KL from the lagged copy is kl_target", paper="no")
    kl_target: float = knob(0.01, "that KL", low=0, open=True)
    k: int = knob(1, "longest target, in steps", low=1, paper="grid 1-100")
    trace: float = knob(1.0, "weight passed on to longer targets; 0 is one step, 1 plain k-step", low=0, high=1)
    kappa: float = knob(
        0.0, "share of the bootstrap that V's own gradient sees; the rest is the slow copy's", low=0, high=1, paper="1"
    )

    # The dual
    dual: Literal["net", "linear", "none"] = knob(
        "net", "rho = V + nu: nu a network, or linear and solved exactly; or no dual, with eta 0", paper="net"
    )
    dual_features: Literal["rbf", "hidden"] = knob(
        "rbf", "what a linear nu is linear in: random features, or a network's last hidden layer"
    )
    dual_sees: Literal["first", "all"] = knob(
        "first", "actions that rho sees: the first or all k of a target", paper="all (erratum E2)"
    )
    dual_steps: int = knob(1, "most dual steps per update; 1 is Algorithm 2", low=1)
    dual_tolerance: float = knob(
        0.0, "dual steps end when one lowers the dual loss by less than this share", low=0, high=1
    )
    dual_l2: float = knob(0.0, "weight of |nu|^2 in the dual's loss, or the ridge of a linear dual", low=0)

    # The policy
    policy: Literal["mlp", "rbf", "table"] = knob(
        "mlp", "what pi is made of; table is for discrete observations", paper="rbf"
    )
    squash: bool = knob(True, "box actions of an mlp pass through tanh", paper="no")
    features: int = knob(100, "random features of an rbf policy or linear dual", low=1, paper="100; 500 on HalfCheetah")
    initial_std: float = knob(1.0, "standard deviation of a new policy that is not squashed", low=0, open=True)
    pi_credit: Literal["first", "all"] = knob(
        "all", "actions of a target that the score credits with it: the first or all k", paper="all"
    )
    pi_prox: Literal["euclidean", "kl"] = knob(
        "euclidean", "distance of pi's step: parameters (Adam or SGD) or KL (natural gradient)", paper="kl"
    )
    kl_radius: float = knob(0.02, "most KL of one policy step where pi_prox is kl", low=0, open=True)
    fisher_ridge: float = knob(1e-4, "damping of the natural gradient, of the Fisher matrix's mean diagonal", low=0)
    whiten: bool = knob(False, "divide the score's weights by their root mean square", paper="no")
    centre: bool = knob(False, "subtract the mean of the score's weights too; biased off-policy", paper="no")

    # The steps
    V_step_size: float = knob(1e-3, "of V", low=0, paper="grid .001-.1")
    pi_step_size: float = knob(3e-4, "of pi", low=0, paper=".005 off-policy, .01 on-policy")
    dual_step_size: float = knob(1e-3, "of rho", low=0, paper="grid .001-.1")
    lam_step_size: float = knob(3e-4, "of log lam, with adapt_lam", low=0)
    optimizer: Literal["adam", "sgd"] = knob("adam", "of Euclidean steps", paper="adam")
    max_grad_norm: float | None = knob(None, "longer gradients are scaled down to this norm", low=0, open=True)
    step_decay: float = knob(0.0, "step sizes fall as 1 / (1 + step_decay * iteration)", low=0)
    slow_rate: float = knob(0.005, "share of V that its slow copy takes over per update", low=0, high=1)

    # The models
    hidden: tuple[int, ...] = knob((256, 256), "widths of the hidden layers", low=1, high=16_384, paper="64 64")
    activation: Literal["relu", "tanh"] = knob("relu", "of the hidden layers", paper="tanh")
    normalize_observations: bool = knob(False, "by running mean and standard deviation", paper="not said")
    scale_rounds: int = knob(
        25, "rounds that count in these statistics; later the scale of observations stands still", low=1
    )
    normalize_rewards: bool = knob(
        False, "by the running standard deviation of the discounted return", paper="not said"
    )

    # The data
    batch_size: int = knob(256, "targets per update", low=1, paper="grid 10000-40000")
    segment_length: int | None = knob(None, "consecutive transitions sampled together, at least k; unset: k", low=1)
    all_starts: bool = knob(
        False, "every transition of a segment starts a target, not the first alone", paper="not said"
    )
    replay_capacity: int = knob(1_000_000, "transitions kept", low=1, high=1e9)
    newest: int | None = knob(None, "sample among so many newest transitions only; unset: the whole replay", low=1)
    warmup: int = knob(5_000, "uniformly random steps before the first update; 0 if on_policy alone", low=0)
    steps_per_iteration: int = knob(64, "environment steps between updates", low=1, paper="grid 1000-3000")
    trajectories_per_iteration: int | None = knob(
        None, "episodes to finish before the updates, looked at after every so many steps", low=1, paper="52 on-policy"
    )
    on_policy: bool = knob(False, "forget the data after each round's updates")
    updates_per_iteration: int = knob(64, "updates after each of these rounds", low=1, paper="not said")
    pi_updates_per_iteration: int | None = knob(
        None, "policy steps after V's and rho's of a round; unset: one with each of them", low=1
    )
    pi_batch_size: int = knob(4096, "targets of such a policy step", low=1)
    pi_newest: int | None = knob(None, "newest transitions that it samples among; unset: as for V", low=1)

    # What the trainer asks of every agent.
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
