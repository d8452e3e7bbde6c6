"""The smoothed Bellman equation as the plain one of another MDP."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import (
    bellman,
    entropy,
    evaluate,
    hard_optimum,
    policy_value,
    smoothed_bellman,
    smoothed_greedy,
    soft_optimum,
)
from sbeed.types import Array, Key, Scalar

MIXTURES = 30


def induced(mdp: FiniteMDP, log_mixtures: Array, lam: Scalar) -> FiniteMDP:
    """The MDP whose action m in state s is the mixture pi_m(.|s):   [paper: appendix:multi_step, first paragraph]

        R~(s, pi) = E_pi[R(s, a)] + lam H(pi, s),    P~(s'|s, pi) = E_pi[P(s'|s, a)].

    log_mixtures: [M, S, A]
    """
    count, pi = len(log_mixtures), jnp.exp(log_mixtures)
    P = jnp.einsum("msa,sat->smt", pi, mdp.P)
    R = jnp.sum(pi * mdp.R, axis=-1) + lam * entropy(log_mixtures)
    return FiniteMDP(P, R.T, mdp.mu, jnp.full((mdp.states, count), 1 / count), mdp.gamma)


def random_mixtures(mdp: FiniteMDP, key: Key) -> Array:
    return jax.nn.log_softmax(2 * jax.random.normal(key, (MIXTURES, mdp.states, mdp.actions)))


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The induced MDP is one, its policy values are V^pi_lam, its Bellman operator is T_lam, its optimum is V*_lam.

    The simplex is represented by random mixtures, none of which may win, and by the one that should: the smoothed
    greedy mixture at V for the operator, pi*_lam for the optimum.
    """
    k_draw, k_mixtures = jax.random.split(key)
    point, mixtures = draw(mdp, k_draw), random_mixtures(mdp, k_mixtures)
    lam, optimum = point.lam, soft_optimum(mdp, point.lam)
    greedy = smoothed_greedy(mdp, point.V, lam)
    shaped = induced(mdp, jnp.concatenate([mixtures, greedy[None], optimum.log_pi[None]]), lam)

    states = jnp.arange(mdp.states)
    chosen = mixtures[states, states]  # another mixture in each state: any stationary policy
    return every(
        equal(shaped.P.sum(-1), 1.0, 1e-12),
        at_most(-shaped.P.min(), 1e-12),
        equal(evaluate(shaped, jax.nn.one_hot(states, shaped.actions)), policy_value(mdp, chosen, lam), 1e-10),
        equal(bellman(shaped, point.V), smoothed_bellman(mdp, point.V, lam), 1e-10),
        equal(bellman(shaped, optimum.V), optimum.V, 1e-10),
        equal(hard_optimum(shaped), optimum.V, 1e-10),
    )


def counterexample() -> Claim:
    """The same mixtures without the shaping reward give the unsmoothed equation, or less."""
    mdp, lam, V = two_state(noise=0.2), 0.5, jnp.array([1.0, -1.0])
    unshaped = induced(mdp, smoothed_greedy(mdp, V, lam)[None], 0.0)
    return equal(bellman(unshaped, V), smoothed_bellman(mdp, V, lam))


STATEMENT = Statement(
    name="entropy_shaping",
    says="T_lam is the plain Bellman operator of an MDP whose actions are mixtures, paid lam H(pi) more",
    labels=("appendix:multi_step", "eq:smoothed_bellman_opt_dual"),
    check=check,
    without="the entropy in the mixture's reward",
    counterexample=counterexample,
)
