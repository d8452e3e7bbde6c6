"""The paper's objectives on a FiniteMDP: the learner's equations fed with every transition and its probability."""

import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP
from sbeed.theory.enumerate import Paths, transitions
from sbeed.theory.operators import backup
from sbeed.types import Array, Scalar


def delta_bar(mdp: FiniteMDP, V: Array, log_pi: Array, lam: Scalar) -> Array:
    """E[delta | s, a] = R + gamma E[V(s')] - lam log pi: the dual's exact optimum rho*.   [S, A]"""
    return backup(mdp, V) - lam * log_pi


def ell(mdp: FiniteMDP, V: Array, log_pi: Array, lam: Scalar) -> Array:
    """The mean squared consistency Bellman error.   [paper: eq:simplified_smooth_bellman_loss]"""
    weight = (mdp.mu[:, None] * mdp.pi_b).ravel()
    v = jnp.broadcast_to(V[:, None], mdp.pi_b.shape).ravel()
    return equations.ell(delta_bar(mdp, V, log_pi, lam).ravel(), v, weight)


def delta(mdp: FiniteMDP, V: Array, log_pi: Array, lam: Scalar) -> Array:
    """delta(s, a, s') of every transition.   [S * A * S]"""
    t = transitions(mdp)
    return equations.delta_one_step(t.r, log_pi[t.s, t.a], V[t.s_next], gamma=mdp.gamma, lam=lam)


def L(mdp: FiniteMDP, V: Array, log_pi: Array, nu: Array, lam: Scalar) -> Array:
    """The saddle-point objective.   [paper: eq:dual_simplified_smooth_bellman]   nu: [S, A]"""
    t = transitions(mdp)
    return equations.L(delta(mdp, V, log_pi, lam), V[t.s], nu[t.s, t.a], t.weight)


def L_eta(mdp: FiniteMDP, V: Array, log_pi: Array, rho: Array, lam: Scalar, eta: Scalar) -> Array:
    """The trade-off objective.   [paper: eq:one_step_trade_off]   rho: [S, A]"""
    t = transitions(mdp)
    return equations.L_eta(delta(mdp, V, log_pi, lam), V[t.s], rho[t.s, t.a], eta=eta, weight=t.weight)


def dual_loss(mdp: FiniteMDP, V: Array, log_pi: Array, rho: Array, lam: Scalar) -> Array:
    """E[(delta - rho)^2].   rho: [S, A]"""
    t = transitions(mdp)
    return equations.dual_loss(delta(mdp, V, log_pi, lam), rho[t.s, t.a], t.weight)


def delta_k_step(mdp: FiniteMDP, p: Paths, V: Array, log_pi: Array, lam: Scalar, k: int) -> Array:
    """delta(s_0:k, a_0:k-1) of every path.   [paper: eq:variance_reduction_kstep]   [n]"""
    segments, never = _segments(p, V, log_pi)
    return equations.delta_k_step(*segments, never, never, gamma=mdp.gamma, lam=lam, k=k)[:, 0]


def delta_trace(mdp: FiniteMDP, p: Paths, V: Array, log_pi: Array, lam: Scalar, trace: Scalar) -> Array:
    """The trace target of every path, cut at its end.   [paper: eq:dual_eligible_trace]   [n]"""
    segments, never = _segments(p, V, log_pi)
    return equations.delta_trace(*segments, never, never, gamma=mdp.gamma, lam=lam, trace=trace)[:, 0]


def _segments(p: Paths, V: Array, log_pi: Array) -> tuple[tuple[Array, Array, Array], Array]:
    """(r, log_pi, v_next) along every path, and the flag of an end that never comes.   All [n, k]"""
    return (p.r, log_pi[p.s[:, :-1], p.a], V[p.s[:, 1:]]), jnp.zeros(p.a.shape, bool)
