"""From a small loss to a small error of V."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import Optimum, soft_optimum, state_norm
from sbeed.types import Array, Key, Scalar


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||V - V*_lam||^2 <= 2 (ell - ell*) + 2 lam^2 ||log pi - log pi*_lam||^2, also split by any pi_w with factors 4.

    And eq:first_term, which at V = V*_lam is an equality, with lam^2.
    """
    one, two = (draw(mdp, k) for k in jax.random.split(key))
    lam, log_pi, log_pi_w = one.lam, one.log_pi, two.log_pi
    V_opt, log_pi_opt = optimum = soft_optimum(mdp, lam)
    lhs = state_norm(mdp, one.V - V_opt) ** 2
    excess = exact.ell(mdp, one.V, log_pi, lam) - exact.ell(mdp, *optimum, lam)
    first_term = exact.ell(mdp, V_opt, log_pi_w, lam) - exact.ell(mdp, *optimum, lam)
    to_w, from_w = squared_norm(mdp, log_pi - log_pi_w), squared_norm(mdp, log_pi_w - log_pi_opt)
    return every(
        at_most(lhs, 2 * excess + 2 * lam**2 * squared_norm(mdp, log_pi - log_pi_opt)),
        at_most(lhs, 2 * excess + 4 * lam**2 * (to_w + from_w)),
        equal(first_term, lam**2 * from_w),
    )


def squared_norm(mdp: FiniteMDP, f: Array) -> Array:
    """||f||_2^2 = E_{mu pi_b}[f(s, a)^2].   [paper: sec:analysis, Notations]"""
    return jnp.sum(mdp.mu[:, None] * mdp.pi_b * f**2)


def unseen_error(lam: Scalar = 0.5) -> tuple[FiniteMDP, Optimum]:
    """One state, two equal actions, V one too high: pi hides it on the action that pi_b takes 99 times of 100."""
    mdp = finite_mdp(np.ones((1, 2, 1)), np.zeros((1, 2)), pi_b=[[0.99, 0.01]], gamma=0.5)
    V = soft_optimum(mdp, lam).V + 1
    pi = jnp.exp(-(1 - mdp.gamma) / lam) / 2
    return mdp, Optimum(V, jnp.log(jnp.stack([pi, 1 - pi]))[None])


def counterexample() -> Claim:
    """The lemma as typed, its middle term zero, with pi_w = pi*_lam, which makes the last term zero too."""
    lam = 0.5
    mdp, (V, log_pi) = unseen_error(lam)
    optimum = soft_optimum(mdp, lam)
    excess = exact.ell(mdp, V, log_pi, lam) - exact.ell(mdp, *optimum, lam)
    return at_most(state_norm(mdp, V - optimum.V) ** 2, 2 * excess)


STATEMENT = Statement(
    name="loss_to_solution",
    says="||V - V*_lam||^2 <= 2 (ell - ell*) + 2 lam^2 ||log pi - log pi*_lam||^2; eq:first_term, with lam^2, is tight",
    labels=("lemma:loss_solution_connection", "eq:first_term"),
    check=check,
    without="the middle term, which is zero as typed (erratum E10)",
    counterexample=counterexample,
)
