"""What the smoothing costs."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, equal_actions
from sbeed.theory.claim import Claim, Statement, at_most, every
from sbeed.theory.operators import hard_optimum, soft_optimum
from sbeed.types import Array, Key

LAMS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


def bias(mdp: FiniteMDP, lams: Array) -> Array:
    """V*_lam - V*, signed, for each lam.   [n] -> [n, S]"""
    return jax.vmap(lambda lam: soft_optimum(mdp, lam).V)(lams) - hard_optimum(mdp)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """0 <= V*_lam - V* <= lam H* / (1 - gamma) with H* = log A, and the gap shrinks at least as fast as lam.

    V*_lam(s) is the maximum over policies of V^pi(s) + lam (discounted entropy of pi), affine in lam: it is convex in
    lam, so (V*_lam - V*) / lam can only fall with lam. Hence the limit, and its rate.
    """
    lams = jnp.array(LAMS)
    gap = bias(mdp, lams)
    rate = gap / lams[:, None]
    return every(
        at_most(jnp.abs(rate).max(), jnp.log(mdp.actions) / (1 - mdp.gamma)),
        at_most(-gap.min(), 1e-10),
        at_most((rate[:-1] - rate[1:]).max(), 1e-9),
    )


def counterexample() -> Claim:
    """Three equal actions attain the bound, so the entropy of one action fewer is not enough."""
    mdp, lam = equal_actions(3), 0.5
    return at_most(jnp.abs(bias(mdp, jnp.array([lam]))).max(), lam * jnp.log(mdp.actions - 1) / (1 - mdp.gamma))


STATEMENT = Statement(
    name="smoothing_bias",
    says="0 <= V*_lam - V* <= lam H* / (1 - gamma), vanishing with lam at least linearly",
    labels=("lemma:smooth_bias",),
    check=check,
    without="H* the maximal entropy: that of one action fewer, log(A - 1), is too small",
    counterexample=counterexample,
)
