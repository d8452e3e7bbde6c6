"""The Q-form's objectives on a FiniteMDP: its learner's equations fed with every transition and its probability.

prior: log pi_b(a|s) [S, A] where the entropy is relative to a behaviour policy; None for the uniform measure.
"""

import jax.numpy as jnp

from sbeed.agents.q_sbeed import equations as of_Q
from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP
from sbeed.theory.enumerate import Paths, transitions
from sbeed.theory.operators import backup
from sbeed.types import Array, Scalar


def delta_bar(mdp: FiniteMDP, Q: Array, lam: Scalar, prior: Array | None = None) -> Array:
    """E[delta | s, a] = R + gamma E[V_Q(s')]: the dual's exact optimum rho*.   [S, A]"""
    return backup(mdp, of_Q.V_of(Q, lam=lam, prior=prior))


def td(mdp: FiniteMDP, Q: Array, lam: Scalar, prior: Array | None = None) -> Array:
    """delta - Q(s, a) of every transition.   [S * A * S]"""
    t, V = transitions(mdp), of_Q.V_of(Q, lam=lam, prior=prior)
    return of_Q.td_error(t.r, V[t.s_next], Q[t.s, t.a], jnp.zeros(t.s.shape, bool), gamma=mdp.gamma)


def ell(mdp: FiniteMDP, Q: Array, lam: Scalar, prior: Array | None = None) -> Array:
    """E_{s,a}[(R + gamma E[V_Q(s')] - Q(s, a))^2]"""
    weight = mdp.mu[:, None] * mdp.pi_b
    return equations.ell(delta_bar(mdp, Q, lam, prior).ravel(), Q.ravel(), weight.ravel())


def L_eta(
    mdp: FiniteMDP,
    Q: Array,
    rho: Array,
    lam: Scalar,
    eta: Scalar,
    *,
    prior: Array | None = None,
    kappa: Scalar = 1.0,
) -> Array:
    """E[(delta - Q)^2] - eta E[(delta - rho)^2], of whose delta a share kappa is differentiated.   rho: [S, A]"""
    t = transitions(mdp)
    q = Q[t.s, t.a]
    delta = of_Q.with_backward_share(td(mdp, Q, lam, prior) + q, kappa)
    return equations.L_eta(delta, q, rho[t.s, t.a], eta=eta, weight=t.weight)


def path_errors(mdp: FiniteMDP, p: Paths, Q: Array, lam: Scalar, trace: Scalar, k: int) -> Array:
    """sum_{i<k} (gamma trace)^i td_i of every path.   [n]"""
    here, a, there = p.s[:, :k], p.a[:, :k], p.s[:, 1 : k + 1]
    never = jnp.zeros(a.shape, bool)
    errors = of_Q.td_error(p.r[:, :k], of_Q.V_of(Q, lam=lam)[there], Q[here, a], never, gamma=mdp.gamma)
    return of_Q.path_errors(errors, never, gamma=mdp.gamma, trace=trace)[:, 0]
