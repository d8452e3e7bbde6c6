"""Finite MDPs: the numbers that define one, and families of them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.types import Array, Key, Scalar


class FiniteMDP(eqx.Module):
    """A Markov decision process with tables for everything, and the data distribution mu(s) pi_b(a|s).

    A pytree of arrays: `jax.vmap` over a batch of equal shapes gives a batch of MDPs.
    """

    P: Array  # P(s'|s, a): [S, A, S]
    R: Array  # [S, A]
    mu: Array  # state weights of the objectives: [S]
    pi_b: Array  # behaviour policy pi_b(a|s): [S, A]
    gamma: Array  # discount, in (0, 1)

    @property
    def states(self) -> int:
        return self.P.shape[-1]

    @property
    def actions(self) -> int:
        return self.P.shape[-2]


def finite_mdp(P: Any, R: Any, mu: Any = None, pi_b: Any = None, gamma: float = 0.9) -> FiniteMDP:
    """A checked FiniteMDP from any arrays; mu and pi_b are uniform unless given."""
    P, R = np.asarray(P, float), np.asarray(R, float)
    if P.ndim != 3 or P.shape[0] != P.shape[2]:
        raise ValueError(f"P: expected shape [S, A, S], got {list(P.shape)}")
    states, actions, _ = P.shape
    mu = np.full(states, 1 / states) if mu is None else np.asarray(mu, float)
    pi_b = np.full((states, actions), 1 / actions) if pi_b is None else np.asarray(pi_b, float)
    for name, table, shape in (("R", R, (states, actions)), ("mu", mu, (states,)), ("pi_b", pi_b, (states, actions))):
        if table.shape != shape:
            raise ValueError(f"{name}: expected shape {list(shape)}, got {list(table.shape)}")
    for name, table in (("P", P), ("mu", mu), ("pi_b", pi_b)):
        if (table < 0).any() or not np.allclose(table.sum(-1), 1):
            raise ValueError(f"{name}: every row must be a probability distribution")
    if not np.isfinite(R).all():
        raise ValueError("R: every reward must be finite")
    if not 0 < gamma < 1:
        raise ValueError(f"gamma: must lie in (0, 1), got {gamma}")
    return FiniteMDP(*(jnp.asarray(x) for x in (P, R, mu, pi_b, gamma)))


def stationary_distribution(P: Array, pi: Array) -> Array:
    """The distribution that the chain of `pi` leaves unchanged (unique when the chain is ergodic).   [S]"""
    states = P.shape[-1]
    chain = jnp.einsum("sa,sat->st", pi, P)
    # m (I - chain + 1 1^T) = 1^T has the stationary m as its only solution, with no eigenvectors involved.
    return jnp.linalg.solve((jnp.eye(states) - chain + 1).T, jnp.ones(states))


def garnet(
    key: Key, states: int = 6, actions: int = 3, *, branching: int = 3, gamma: Scalar = 0.9, on_path: bool = True
) -> FiniteMDP:
    """A random MDP: each (s, a) leads to `branching` random states, rewards uniform in [-1, 1], pi_b random and full.

    on_path: mu is the stationary distribution of pi_b, as along one long sample path; otherwise mu is random and full.
    """
    k_targets, k_probs, k_rewards, k_behaviour, k_mu = jax.random.split(key, 5)
    scores = jax.random.uniform(k_targets, (states, actions, states))
    reached = scores >= jnp.sort(scores, axis=-1)[..., states - branching, None]
    mass = jnp.where(reached, jax.random.exponential(k_probs, scores.shape), 0)
    # A drop of every state keeps each chain ergodic.
    P = 0.99 * mass / mass.sum(-1, keepdims=True) + 0.01 / states
    R = jax.random.uniform(k_rewards, (states, actions), minval=-1.0, maxval=1.0)
    pi_b = 0.1 / actions + 0.9 * jax.random.dirichlet(k_behaviour, jnp.ones(actions), (states,))
    mu = (
        stationary_distribution(P, pi_b)
        if on_path
        else 0.1 / states + 0.9 * jax.random.dirichlet(k_mu, jnp.ones(states))
    )
    return FiniteMDP(P, R, mu, pi_b, jnp.asarray(gamma, P.dtype))


def garnets(key: Key, count: int, make: Callable[..., FiniteMDP] = garnet, **fields: Any) -> FiniteMDP:
    """A batch of `count` garnets, each with its own discount, uniform in [.5, .95] unless `gamma` is given."""
    k_mdp, k_gamma = jax.random.split(key)
    gamma = fields.pop("gamma", None)
    gammas = jax.random.uniform(k_gamma, (count,), minval=0.5, maxval=0.95) if gamma is None else jnp.full(count, gamma)
    return jax.vmap(lambda k, g: make(k, gamma=g, **fields))(jax.random.split(k_mdp, count), gammas)


def chain(states: int = 8, *, slip: float = 0.1, gamma: float = 0.9) -> FiniteMDP:
    """Walk left or right on a line, slipping the other way with probability `slip`; the right end's wall pays 1."""
    here = np.arange(states)
    left, right = np.maximum(here - 1, 0), np.minimum(here + 1, states - 1)
    P = np.zeros((states, 2, states))
    for action, (meant, other) in enumerate(((left, right), (right, left))):
        P[here, action, meant] += 1 - slip
        P[here, action, other] += slip
    R = np.zeros((states, 2))
    R[-1, 1] = 1
    return finite_mdp(P, R, gamma=gamma)


def two_state(*, noise: float = 0.0, gamma: float = 0.9) -> FiniteMDP:
    """Stay or switch between a good state and a bad one; with probability `noise` the next state is a fair coin."""
    stay, switch = np.eye(2), np.eye(2)[::-1]
    P = (1 - noise) * np.stack([stay, switch], axis=1) + noise / 2
    return finite_mdp(P, [[1.0, 0.0], [0.0, 0.5]], gamma=gamma)


def cliff(width: int = 5, *, gamma: float = 0.95) -> FiniteMDP:
    """A 2-row grid; between start and goal lies a cliff (reward -1, back to start); the goal pays 1 and restarts.

    Actions: left, right, up, down. State: row * width + column, row 0 at the bottom, from (0, 0) to (0, width - 1).
    """
    states = 2 * width
    P, R = np.zeros((states, 4, states)), np.zeros((states, 4))
    for row in range(2):
        for column in range(width):
            for action, (d_row, d_column) in enumerate(((0, -1), (0, 1), (1, 0), (-1, 0))):
                s = row * width + column
                to_row, to_column = min(max(row + d_row, 0), 1), min(max(column + d_column, 0), width - 1)
                to = to_row * width + to_column
                if to_row == 0 and 0 < to_column < width - 1:
                    to, R[s, action] = 0, -1
                if s == width - 1:
                    to, R[s, action] = 0, 1
                P[s, action, to] = 1
    return finite_mdp(P, R, gamma=gamma)


def equal_actions(actions: int = 2, *, gamma: float = 0.3) -> FiniteMDP:
    """One state, equal actions, no reward: V* = 0 and V*_lam = lam log A / (1 - gamma). Erratum E3's counterexample."""
    return finite_mdp(np.ones((1, actions, 1)), np.zeros((1, actions)), gamma=gamma)


def telling_actions(*, gamma: float = 0.9) -> FiniteMDP:
    """A coin sends state 0 to state 1 or 2, where pi_b picks the action named after the state. Erratum E2's example.

    Later actions reveal later states, so a dual that sees them averages over the wrong distribution.
    """
    P = np.zeros((3, 2, 3))
    P[0, :, 1:] = 0.5
    P[1:, :, 0] = 1
    R = [[0.0, 0.0], [1.0, 1.0], [-1.0, -1.0]]
    pi_b = [[0.5, 0.5], [0.9, 0.1], [0.1, 0.9]]
    return finite_mdp(P, R, mu=[0.5, 0.25, 0.25], pi_b=pi_b, gamma=gamma)
