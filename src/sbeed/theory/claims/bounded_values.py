"""How large the optimal values can be."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, equal_actions
from sbeed.theory.claim import Claim, Statement, at_most
from sbeed.theory.operators import hard_optimum, soft_optimum
from sbeed.types import Key

LAMS = (0.05, 0.5, 5.0, 50.0)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||V*_lam||_inf <= (C_R + lam H*) / (1 - gamma), with lam = 0 for V*; and so in any ||.||_mu, which is no larger.

    H* counts lam times, as it does in the reward R + lam H that it bounds (erratum E5).
    """
    lams = jnp.array((0.0, *LAMS))
    V = jnp.concatenate([hard_optimum(mdp)[None], jax.vmap(lambda lam: soft_optimum(mdp, lam).V)(lams[1:])])
    bound = (jnp.abs(mdp.R).max() + lams * jnp.log(mdp.actions)) / (1 - mdp.gamma)
    return at_most((jnp.abs(V).max(-1) / bound).max(), 1.0)


def counterexample() -> Claim:
    """As printed, (C_R + H*) / (1 - gamma), the bound is broken as soon as lam > 1 and the entropy is all there is."""
    mdp, lam = equal_actions(), 4.0
    printed = (jnp.abs(mdp.R).max() + jnp.log(mdp.actions)) / (1 - mdp.gamma)
    return at_most(jnp.sqrt(mdp.mu @ soft_optimum(mdp, lam).V ** 2), printed)


STATEMENT = Statement(
    name="bounded_values",
    says="||V*||_inf <= C_R / (1 - gamma) and ||V*_lam||_inf <= (C_R + lam H*) / (1 - gamma)",
    labels=("appendix:analysis_details", "asmp:mdp_reg"),
    check=check,
    without="lam on H*, as printed (erratum E5)",
    counterexample=counterexample,
)
