"""The smoothing bias in the norm of the data."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, equal_actions
from sbeed.theory.claim import Claim, Statement, at_most
from sbeed.theory.operators import hard_optimum, soft_optimum, state_norm
from sbeed.types import Array, Key

LAMS = (0.01, 0.1, 1.0, 10.0)


def squared_bias(mdp: FiniteMDP, lams: Array) -> Array:
    """||V*_lam - V*||^2_{mu pi_b} for each lam.   [n] -> [n]"""
    V_star = hard_optimum(mdp)
    return jax.vmap(lambda lam: state_norm(mdp, soft_optimum(mdp, lam).V - V_star) ** 2)(lams)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||V*_lam - V*||^2_{mu pi_b} <= c (lam H* / (1 - gamma))^2 with c = 1, and so with the lemma's 2 gamma^2 + 2.

    The lemma's own proof gives its factor once the last step takes the bound of lemma:smooth_bias, which has no gamma
    (erratum E3). But as D = V*_lam - V* >= 0, gamma E[D(s')] and D(s) pull against each other, and
    |gamma E[D(s')] - D(s)| <= max D: no factor is needed. The stronger form is the one tested.
    """
    lams = jnp.array(LAMS)
    square = (lams * jnp.log(mdp.actions) / (1 - mdp.gamma)) ** 2
    return at_most((squared_bias(mdp, lams) / square).max(), 1.0)


def counterexample() -> Claim:
    """As printed, with gamma lam / (1 - gamma), one state with two equal actions breaks it."""
    mdp, lam = equal_actions(gamma=0.3), 0.5
    printed = (2 * mdp.gamma**2 + 2) * (mdp.gamma * lam * jnp.log(mdp.actions) / (1 - mdp.gamma)) ** 2
    return at_most(squared_bias(mdp, jnp.array([lam]))[0], printed)


STATEMENT = Statement(
    name="decomposed_bias",
    says="||V*_lam - V*||^2_{mu pi_b} <= (lam H* / (1 - gamma))^2, which is the lemma without its factor 2 gamma^2 + 2",
    labels=("lemma:decomposed_bias",),
    check=check,
    without="lam H* / (1 - gamma) in full: the printed gamma lam H* / (1 - gamma) is too small (erratum E3)",
    counterexample=counterexample,
)
