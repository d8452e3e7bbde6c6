"""All transitions and all k-step paths of a FiniteMDP with their probabilities: expectations without sampling.

The learner's equations take these arrays as they take a batch; `weight` makes the mean exact.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP
from sbeed.types import Array


class Transitions(NamedTuple):
    """Every (s, a, s') under mu(s) pi_b(a|s) P(s'|s, a).   All [S * A * S]"""

    s: np.ndarray
    a: np.ndarray
    s_next: np.ndarray
    r: Array
    weight: Array


def transitions(mdp: FiniteMDP) -> Transitions:
    s, a, s_next = (x.ravel() for x in np.indices((mdp.states, mdp.actions, mdp.states)))
    weight = mdp.mu[s] * mdp.pi_b[s, a] * mdp.P[s, a, s_next]
    return Transitions(s, a, s_next, mdp.R[s, a], weight)


class Paths(NamedTuple):
    """Every path s_0, a_0, s_1, ..., a_k-1, s_k, n of them.

    weight: probability under mu, pi_b and P.   open_loop: under P alone, given s_0 and a_0:k-1.
    """

    s: np.ndarray  # [n, k + 1]
    a: np.ndarray  # [n, k]
    r: Array  # [n, k]
    weight: Array  # [n]
    open_loop: Array  # [n]


def paths(mdp: FiniteMDP, k: int) -> Paths:
    """S (A S)^k of them: keep k and the MDP small."""
    grid = np.indices((mdp.states,) + (mdp.actions, mdp.states) * k).reshape(2 * k + 1, -1)
    s, a = grid[0::2].T, grid[1::2].T
    here, there = s[:, :-1], s[:, 1:]
    open_loop = jnp.prod(mdp.P[here, a, there], axis=1)
    weight = mdp.mu[s[:, 0]] * jnp.prod(mdp.pi_b[here, a], axis=1) * open_loop
    return Paths(s, a, mdp.R[here, a], weight, open_loop)


def given_actions(mdp: FiniteMDP, k: int, seen: int, x: Array, weight: Array) -> Array:
    """E[x | s_0, a_0:seen-1] under `weight`, for every k-step path.   [..., n] -> [..., n]"""
    grid = (mdp.states,) + (mdp.actions, mdp.states) * k
    # Axes alternate s_0, a_0, s_1, a_1, ...: average over every one that is neither s_0 nor a seen action.
    unseen = tuple(axis - len(grid) for axis in range(1, 2 * k + 1) if axis % 2 == 0 or axis >= 2 * seen)
    mass = weight.reshape(grid).sum(unseen, keepdims=True)
    mean = (x * weight).reshape(*x.shape[:-1], *grid).sum(unseen, keepdims=True) / mass
    return jnp.broadcast_to(mean, (*x.shape[:-1], *grid)).reshape(x.shape)
