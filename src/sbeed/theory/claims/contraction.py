"""Contraction of the smoothed Bellman operator."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import smoothed_bellman, soft_optimum
from sbeed.types import Key


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||T_lam V1 - T_lam V2||_inf <= gamma ||V1 - V2||_inf, and iterating from anywhere ends at V*_lam."""
    one, two = (draw(mdp, k) for k in jax.random.split(key))
    lam = one.lam
    gap = smoothed_bellman(mdp, one.V, lam) - smoothed_bellman(mdp, two.V, lam)
    limit = jax.lax.fori_loop(0, 600, lambda _, V: smoothed_bellman(mdp, V, lam), two.V)
    return every(
        at_most(jnp.abs(gap).max(), mdp.gamma * jnp.abs(one.V - two.V).max()),
        equal(limit, soft_optimum(mdp, lam).V),
    )


def counterexample() -> Claim:
    """In the norm of the data distribution the operator expands: all states lead to one that mu hardly sees."""
    mdp = finite_mdp([[[0, 1], [0, 1]], [[0, 1], [0, 1]]], np.zeros((2, 2)), mu=[0.9, 0.1], gamma=0.9)
    V1, V2 = jnp.array([0.0, 1.0]), jnp.zeros(2)
    gap = smoothed_bellman(mdp, V1, 0.1) - smoothed_bellman(mdp, V2, 0.1)
    return at_most(jnp.sqrt(mdp.mu @ gap**2), mdp.gamma * jnp.sqrt(mdp.mu @ (V1 - V2) ** 2))


STATEMENT = Statement(
    name="contraction",
    says="T_lam is a gamma-contraction in the sup norm, so V*_lam is unique",
    labels=("thm:contraction",),
    check=check,
    without="the sup norm: in the data distribution's weighted 2-norm T_lam can expand",
    counterexample=counterexample,
)
