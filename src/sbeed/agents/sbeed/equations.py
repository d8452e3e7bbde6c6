"""The paper's equations, each in one place: arrays in, arrays out.

Every expectation takes `weight`: probabilities make it exact (the laboratory), None is the sample mean (the learner).
`delta` is the *target* R + gamma V(s') - lam log pi(a|s); the error is delta - v.
"""

import jax.numpy as jnp

from sbeed.ops.returns import Affine, compose_to_end, compose_windows
from sbeed.types import Array, Scalar


def mean(x: Array, weight: Array | None = None) -> Array:
    """E[x] over the leading axis, [B, ...] -> [...].   weight: probabilities [B]; None: the sample mean."""
    return jnp.mean(x, axis=0) if weight is None else jnp.tensordot(weight, x, axes=1)


# ------------------------------------------------------------------------------------------------- targets


def delta_one_step(
    r: Array, log_pi: Array, v_next: Array, terminated: Array | None = None, *, gamma: Scalar, lam: Scalar
) -> Array:
    """delta(s, a, s') = R(s, a) + gamma V(s') - lam log pi(a|s)

    [paper: eq:variance_reduction]  V(s') counts as 0 after `terminated`, and only then: a time limit still bootstraps.
    """
    bootstrap = v_next if terminated is None else jnp.where(terminated, 0, v_next)
    return r - lam * log_pi + gamma * bootstrap


def delta_k_step(
    r: Array, log_pi: Array, v_next: Array, terminated: Array, last: Array, *, gamma: Scalar, lam: Scalar, k: int
) -> Array:
    """delta(s_t:t+k, a_t:t+k-1) = sum_{i<k} gamma^i (r_t+i - lam log pi(a_t+i|s_t+i)) + gamma^k V(s_t+k), for every t

    [paper: eq:variance_reduction_kstep]  A window that meets `last` (the path does not go on after that step: the
    episode ended there or the data did) stops there and bootstraps from the state really reached; `terminated`, which
    is always last, cuts that bootstrap, a time limit does not.
    All [..., L] and finite, padding too; v_next[t] is V of the state that step t reached.   Cost: linear in L.
    """
    return delta_multi_step(r, log_pi, v_next, terminated, last, gamma=gamma, lam=lam, k=k, trace=1.0)


def delta_trace(
    r: Array, log_pi: Array, v_next: Array, terminated: Array, last: Array, *, gamma: Scalar, lam: Scalar, trace: Scalar
) -> Array:
    """(1 - trace) sum_{k>=1} trace^(k-1) delta(s_t:t+k, a_t:t+k-1), for every t

    [paper: eq:dual_eligible_trace, whose zeta is `trace`]  Truncated at `last`, where the longest target takes all the
    weight that is left, so the weights sum to one.   Shapes and ends as in `delta_k_step`.
    """
    length = r.shape[-1]
    return delta_multi_step(r, log_pi, v_next, terminated, last, gamma=gamma, lam=lam, k=length, trace=trace)


def delta_multi_step(
    r: Array,
    log_pi: Array,
    v_next: Array,
    terminated: Array,
    last: Array,
    *,
    gamma: Scalar,
    lam: Scalar,
    k: int,
    trace: Scalar,
) -> Array:
    """(1 - trace) sum_{j<k} trace^(j-1) delta_j + trace^(k-1) delta_k, for every t: a trace that ends after k steps

    [paper: appendix:multi_step]  trace = 1 is the k-step target, trace = 0 the one-step one, k = L the whole trace.
    Shapes and ends as in `delta_k_step`.
    """
    if k < 1:
        raise ValueError(f"k: must be at least 1, got {k}")
    steps = _steps(r, log_pi, v_next, terminated, last, gamma=gamma, lam=lam, bootstrap_share=1 - trace)
    length = r.shape[-1]
    if k >= length:
        return compose_to_end(steps).c
    # The longest target bootstraps with all the weight that is left: (1 - share) V on top of its step's share of V.
    ends = jnp.minimum(jnp.arange(length) + k, length) - 1
    return compose_windows(steps, k)(v_next[..., ends])


def _steps(
    r: Array,
    log_pi: Array,
    v_next: Array,
    terminated: Array,
    last: Array,
    *,
    gamma: Scalar,
    lam: Scalar,
    bootstrap_share: Scalar,
) -> Affine:
    """Each step as the map from the target after it to the target before it.

    A step passes on the share of the future that it does not bootstrap; a last step bootstraps all of it.
    """
    last = (last | terminated).at[..., -1].set(True)
    share = jnp.where(last, 1, jnp.asarray(bootstrap_share, r.dtype))
    reward = r - lam * log_pi
    return Affine(reward + gamma * share * jnp.where(terminated, 0, v_next), gamma * (1 - share))


def value_bound(largest_reward: Scalar, most_entropy: Scalar, *, gamma: Scalar, lam: Scalar) -> Scalar:
    """|V*_lam| <= (max |R| + lam max |H|) / (1 - gamma)

    [paper: appendix:analysis_details, which misses lam on H, erratum E5]  Where V runs ahead of its data, this is as
    far as a bootstrap can be right.
    """
    return (largest_reward + lam * most_entropy) / (1 - gamma)


# ------------------------------------------------------------------------------------------------- objectives


def nu_from_rho(rho: Array, v: Array) -> Array:
    """nu(s, a) = rho(s, a) - V(s): the dual as a Bellman error.   [paper: eq:variance_reduction]"""
    return rho - v


def rho_from_nu(nu: Array, v: Array) -> Array:
    """rho(s, a) = nu(s, a) + V(s): the dual as a Bellman backup.   [paper: eq:variance_reduction]"""
    return nu + v


def ell(delta_bar: Array, v: Array, weight: Array | None = None) -> Array:
    """ell(V, pi) = E_{s,a}[(E[delta | s, a] - V(s))^2]

    [paper: eq:simplified_smooth_bellman_loss]  The expectation over s' stands *inside* the square: `delta_bar` is
    already E[delta | s, a], which one sample of s' cannot give. With delta in its place this is PCL's upper bound.
    """
    return mean((delta_bar - v) ** 2, weight)


def L(delta: Array, v: Array, nu: Array, weight: Array | None = None) -> Array:
    """L(V, pi; nu) = 2 E[nu(s,a) (delta - V(s))] - E[nu(s,a)^2]

    [paper: eq:dual_simplified_smooth_bellman]  Linear in delta, so a single s' is unbiased; max over nu gives ell.
    """
    return mean(2 * nu * (delta - v) - nu**2, weight)


def L_eta(delta: Array, v: Array, rho: Array, *, eta: Scalar, weight: Array | None = None) -> Array:
    """L_eta(V, pi; rho) = E[(delta - V)^2] - eta E[(delta - rho)^2]

    [paper: eq:one_step_trade_off]  eta = 0 is PCL; eta = 1 removes Var[gamma V(s')] once rho = E[delta | s, a].
    """
    return mean((delta - v) ** 2, weight) - eta * dual_loss(delta, rho, weight)


def dual_loss(delta: Array, rho: Array, weight: Array | None = None) -> Array:
    """E[(delta - rho)^2], which the dual *descends*: its minimiser E[delta | s, a] maximises L_eta over rho.

    [paper: alg:sbeed, line 7; alg:sbeed_dual_nn is signed the other way round, erratum E1]
    """
    return mean((delta - rho) ** 2, weight)


# ------------------------------------------------------------------------------------------------- gradients


def V_gradient(
    delta: Array,
    v: Array,
    rho: Array,
    dv: Array,
    dv_next: Array,
    *,
    gamma: Scalar,
    eta: Scalar,
    weight: Array | None = None,
) -> Array:
    """2 E[(delta - V)(gamma dV(s') - dV(s))] - 2 eta gamma E[(delta - rho) dV(s')]

    [paper: thm:gradient_estimator]  dv, dv_next: gradients of V at s and s' in V's parameters, [B, D]; a terminal
    s' has dv_next = 0. The theorem holds at the dual optimum, where how rho moves with V does not count.
    """
    error = (delta - v)[:, None]
    return 2 * mean(error * (gamma * dv_next - dv) - eta * gamma * (delta - rho)[:, None] * dv_next, weight)


def pi_gradient(
    delta: Array,
    v: Array,
    rho: Array,
    dlog_pi: Array,
    *,
    lam: Scalar,
    eta: Scalar,
    weight: Array | None = None,
) -> Array:
    """-2 lam E[((1 - eta) delta + eta rho - V) dlog pi(a|s)]

    [paper: thm:gradient_estimator]  dlog_pi: [B, D]. The factor lam is part of the gradient, not of a good step size.
    """
    return -2 * lam * mean(score_weight(delta, v, rho, eta=eta)[:, None] * dlog_pi, weight)


def score_weight(delta: Array, v: Array, rho: Array, *, eta: Scalar) -> Array:
    """(1 - eta) delta + eta rho - V: what multiplies grad log pi in the policy's gradient, not an advantage.

    [paper: thm:gradient_estimator, and the Remark on TRPO and NPG]
    """
    return (1 - eta) * delta + eta * rho - v
