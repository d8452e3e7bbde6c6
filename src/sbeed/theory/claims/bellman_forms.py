"""The forms of the Bellman equation, hard and smoothed."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.operators import (
    backup,
    bellman,
    entropy,
    evaluate,
    hard_optimum,
    smoothed_bellman,
    smoothed_greedy,
)
from sbeed.types import Array, Key, Scalar


def regularised(Q: Array, log_pi: Array, lam: Scalar) -> Array:
    """E_{a~pi}[Q(s, a)] + lam H(pi, s): what eq:smoothed_bellman_opt_dual maximises.   [S, A] -> [S]"""
    return jnp.sum(jnp.exp(log_pi) * Q, axis=-1) + lam * entropy(log_pi)


def deterministic_policies(mdp: FiniteMDP) -> Array:
    """All A^S of them.   [A^S, S, A]"""
    choices = np.indices((mdp.actions,) * mdp.states).reshape(mdp.states, -1).T
    return jnp.eye(mdp.actions)[choices]


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Hard: max_a = max_pi for any V, V* = T V* is the best value of all policies, and the policy greedy in V* has it.

    Smoothed: T_lam V - (E_pi[Q] + lam H(pi)) = lam KL(pi || greedy) for every pi, so the maximum is lam log-sum-exp,
    and only `smoothed_greedy` attains it.
    """
    k_draw, k_mixtures = jax.random.split(key)
    point = draw(mdp, k_draw)
    log_mixtures = jax.nn.log_softmax(3 * jax.random.normal(k_mixtures, (50, mdp.states, mdp.actions)))
    Q, V_star = backup(mdp, point.V), hard_optimum(mdp)
    greedy = jax.nn.one_hot(backup(mdp, V_star).argmax(-1), mdp.actions)
    policies = jnp.concatenate([deterministic_policies(mdp), jnp.exp(log_mixtures), greedy[None]])
    values = jax.vmap(lambda pi: evaluate(mdp, pi))(policies)

    maximum, log_greedy = smoothed_bellman(mdp, point.V, point.lam), smoothed_greedy(mdp, point.V, point.lam)
    gaps = maximum - jax.vmap(lambda log_pi: regularised(Q, log_pi, point.lam))(log_mixtures)
    kl = jnp.sum(jnp.exp(log_mixtures) * (log_mixtures - log_greedy), axis=-1)
    return every(
        equal(jnp.max(jnp.sum(policies * Q, axis=-1), axis=0), bellman(mdp, point.V), 1e-10),
        equal(bellman(mdp, V_star), V_star, 1e-10),
        equal(values.max(0), V_star, 1e-10),
        equal(values[-1], V_star, 1e-10),  # the greedy one
        equal(gaps, point.lam * kl, 1e-10),
        equal(regularised(Q, log_greedy, point.lam), maximum, 1e-10),
    )


def counterexample() -> Claim:
    """The policy greedy at twice the temperature falls short of the maximum, by lam times its KL to the right one."""
    mdp, lam = two_state(), 0.5
    V = jnp.zeros(mdp.states)
    attained = regularised(backup(mdp, V), smoothed_greedy(mdp, V, 2 * lam), lam)
    return equal(attained, smoothed_bellman(mdp, V, lam))


STATEMENT = Statement(
    name="bellman_forms",
    says="max over actions = max over policies; with lam H(pi) added it is lam log-sum-exp; greedy in V* is optimal",
    labels=(
        "eq:bellman_opt",
        "eq:bellman_opt_dual",
        "eq:opt_policy",
        "eq:smoothed_bellman_opt_dual",
        "eq:smoothed_bellman_opt_dual2",
    ),
    check=check,
    without="the policy's temperature being that of the entropy term",
    counterexample=counterexample,
    states=4,
)
