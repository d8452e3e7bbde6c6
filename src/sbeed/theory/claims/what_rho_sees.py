"""What the multi-step dual may see."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, telling_actions
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.enumerate import given_actions, paths
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar

K = 2  # the shortest path with an action that can tell of a later state


def loss(mdp: FiniteMDP, V: Array, logits: Array, lam: Scalar, seen: int) -> Array:
    """max over rho(s_0, a_0:seen-1) of the K-step L_1.   [paper: eq:variance_reduction_kstep]"""
    p = paths(mdp, K)
    delta = exact.delta_k_step(mdp, p, V, jax.nn.log_softmax(logits), lam, K)
    rho = given_actions(mdp, K, seen, delta, p.weight)
    return equations.L_eta(delta, V[p.s[:, 0]], rho, eta=1.0, weight=p.weight)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Loss and gradient vanish at (V*_lam, pi*_lam) if rho sees a_0 alone, and whatever it sees if pi_b is blind."""
    lam = draw(mdp, key).lam
    optimum = soft_optimum(mdp, lam)
    blind = replace(mdp, pi_b=jnp.broadcast_to(mdp.pi_b[0], mdp.pi_b.shape))

    def unbiased(data: FiniteMDP, seen: int) -> Claim:
        value, gradients = jax.value_and_grad(loss, (1, 2))(data, *optimum, lam, seen)
        return every(equal(value, 0.0), *(equal(g, 0.0) for g in gradients))

    return every(unbiased(mdp, 1), unbiased(blind, 1), unbiased(blind, K))


def counterexample() -> Claim:
    """pi_b names the state by its second action: rho(s_0, a_0, a_1) then averages over the wrong states."""
    mdp, lam = telling_actions(), 0.1
    return equal(loss(mdp, *soft_optimum(mdp, lam), lam, K), 0.0)


STATEMENT = Statement(
    name="what_rho_sees",
    says="the k-step objective is unbiased at the optimum if rho sees (s_0, a_0), or all actions of a blind pi_b",
    labels=("appendix:multi_step", "eq:variance_reduction_kstep"),
    check=check,
    without="a pi_b blind to the state, when rho sees every action (erratum E2)",
    counterexample=counterexample,
    states=3,
    actions=2,
)
