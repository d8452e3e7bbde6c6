"""Exact dynamic programming on a FiniteMDP, in the precision of its arrays (float64 in the laboratory)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP
from sbeed.types import Array, Scalar


def backup(mdp: FiniteMDP, V: Array) -> Array:
    """R(s, a) + gamma E[V(s') | s, a].   [S] -> [S, A]"""
    return mdp.R + mdp.gamma * mdp.P @ V


def bellman(mdp: FiniteMDP, V: Array) -> Array:
    """(T V)(s) = max_a R(s, a) + gamma E[V(s')].   [paper: eq:bellman_opt]"""
    return backup(mdp, V).max(-1)


def smoothed_bellman(mdp: FiniteMDP, V: Array, lam: Scalar) -> Array:
    """(T_lam V)(s) = lam log sum_a exp((R(s, a) + gamma E[V(s')]) / lam).   [paper: eq:smoothed_bellman_opt_dual2]"""
    return lam * jax.nn.logsumexp(backup(mdp, V) / lam, axis=-1)


def smoothed_greedy(mdp: FiniteMDP, V: Array, lam: Scalar) -> Array:
    """log of the policy that attains the maximum in eq:smoothed_bellman_opt_dual.   [S, A]"""
    return jax.nn.log_softmax(backup(mdp, V) / lam, axis=-1)


def entropy(log_pi: Array) -> Array:
    """H(pi, s) = -sum_a pi(a|s) log pi(a|s).   [S, A] -> [S]"""
    return -jnp.sum(jnp.exp(log_pi) * log_pi, axis=-1)


class Optimum(NamedTuple):
    V: Array  # [S]
    log_pi: Array  # [S, A]


def soft_optimum(mdp: FiniteMDP, lam: Scalar) -> Optimum:
    """(V*_lam, log pi*_lam): the fixed point of T_lam and its policy, to rounding.

    Newton's iteration on V - T_lam V (soft policy iteration): quadratic, so thirty steps are plenty from any start.
    """

    def newton(V: Array, _: None) -> tuple[Array, None]:
        return policy_value(mdp, smoothed_greedy(mdp, V, lam), lam), None

    V, _ = jax.lax.scan(newton, jnp.zeros_like(mdp.mu), length=30)
    # One application of the contraction removes what the linear solve rounded.
    V = smoothed_bellman(mdp, V, lam)
    return Optimum(V, smoothed_greedy(mdp, V, lam))


def hard_optimum(mdp: FiniteMDP) -> Array:
    """V*: the fixed point of T, by policy iteration (finite, and short: 50 rounds are ample for our sizes)."""

    def improve(V: Array, _: None) -> tuple[Array, None]:
        greedy = jax.nn.one_hot(backup(mdp, V).argmax(-1), mdp.actions, dtype=V.dtype)
        return evaluate(mdp, greedy), None

    V, _ = jax.lax.scan(improve, jnp.zeros_like(mdp.mu), length=50)
    return V


def policy_value(mdp: FiniteMDP, log_pi: Array, lam: Scalar) -> Array:
    """V^pi_lam: expected discounted reward plus lam times entropy.   [S]"""
    return evaluate(mdp, jnp.exp(log_pi), bonus=lam * entropy(log_pi))


def evaluate(mdp: FiniteMDP, pi: Array, bonus: Scalar = 0.0) -> Array:
    """(I - gamma P_pi)^-1 (R_pi + bonus).   pi: probabilities [S, A]"""
    chain = jnp.einsum("sa,sat->st", pi, mdp.P)
    reward = jnp.sum(pi * mdp.R, axis=-1) + bonus
    return jnp.linalg.solve(jnp.eye(mdp.states, dtype=mdp.P.dtype) - mdp.gamma * chain, reward)


def state_norm(mdp: FiniteMDP, V: Array) -> Array:
    """||V||_{mu pi_b} = sqrt E[(gamma E[V(s')|s,a] - V(s))^2].   [paper: sec:analysis, Notations]"""
    return jnp.sqrt(jnp.sum(mdp.mu[:, None] * mdp.pi_b * (mdp.gamma * mdp.P @ V - V[:, None]) ** 2))
