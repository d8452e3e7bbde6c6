"""Dual-AC's game on a FiniteMDP, from the learner's own equations: its Lagrangian, its saddle points, its ascent.

mu is the MDP's state weights; K = gamma^(k+1) P_pi^(k+1) is a path's discounted move from its first state to the one
after its last. What is said here of saddle points is derived in docs/agents/dual_ac.md.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.agents.dual_ac import equations
from sbeed.envs.tabular import FiniteMDP
from sbeed.ops.prox import kl_simplex
from sbeed.theory.enumerate import Paths, paths
from sbeed.theory.operators import backup, evaluate, hard_optimum
from sbeed.types import Array, Scalar


class Point(NamedTuple):
    """The three players, all tables."""

    V: Array  # [S]
    alpha: Array  # [S], not negative
    pi: Array  # probabilities: [S, A]


def lagrangian(mdp: FiniteMDP, z: Point, V_path: Array, *, eta_V: Scalar, k: int) -> Array:
    """(1 - gamma^(k+1)) E_mu[V] + E_alpha,pi[delta] + eta_V E_mu[(V_path - V)^2], by every path of k + 1 steps.

    V_path: the mean of R_path(s), V of the behaviour policy. Its variance would add a constant.
    """
    p = paths(mdp, k + 1)
    weight = z.alpha[p.s[:, 0]] * jnp.prod(z.pi[p.s[:, :-1], p.a], axis=1) * p.open_loop
    delta = equations.delta(*_rows(p, z.V), gamma=mdp.gamma, k=k)[:, 0]
    regulariser = jnp.sum(mdp.mu * (V_path - z.V) ** 2)
    return (1 - mdp.gamma ** (k + 1)) * mdp.mu @ z.V + weight @ delta + eta_V * regulariser


def pi_gradient(mdp: FiniteMDP, z: Point, *, k: int) -> Array:
    """The Lagrangian's gradient in the logits of pi as the learner estimates it: E[A grad log pi].   [S, A]"""
    p = paths(mdp, k + 1)
    weight = jnp.prod(z.pi[p.s[:, :-1], p.a], axis=1) * p.open_loop
    r, v, beyond, last = _rows(p, z.V)
    ratio = jnp.zeros_like(r).at[:, 0].set(z.alpha[p.s[:, 0]])  # paths are told apart by their first state
    passing = equations.along(ratio, last, gamma=mdp.gamma, k=k)
    advantage = equations.advantages(r, v, beyond, last, passing, gamma=mdp.gamma, k=k)

    def surrogate(logits: Array) -> Array:
        log_pi = jax.nn.log_softmax(logits)[p.s[:, :-1], p.a]
        return weight @ jnp.sum(advantage * log_pi, axis=-1)

    return jax.grad(surrogate)(jnp.log(z.pi))


def _rows(p: Paths, V: Array) -> tuple[Array, Array, Array, Array]:
    """(r, v, beyond, last) along every path, whose end is where the data end.   All [n, k + 1]"""
    return p.r, V[p.s[:, :-1]], V[p.s[:, 1:]], jnp.zeros(p.a.shape, bool)


def move(mdp: FiniteMDP, pi: Array, k: int) -> Array:
    """K = gamma^(k+1) P_pi^(k+1).   [S, S]"""
    chain = jnp.einsum("sa,sat->st", pi, mdp.P)
    return jnp.linalg.matrix_power(mdp.gamma * chain, k + 1)


def flow(mdp: FiniteMDP, pi: Array, source: Array, k: int) -> Array:
    """alpha = source + K^T alpha: discounted visits of pi, from `source`, at times 0, k + 1, 2 (k + 1), ...   [S]"""
    K = move(mdp, pi, k)
    return jnp.linalg.solve(jnp.eye(mdp.states, dtype=K.dtype) - K.T, source)


def optimal_policy(mdp: FiniteMDP, V: Array) -> Array:
    """Greedy in V*.   [S, A]"""
    return jax.nn.one_hot(backup(mdp, V).argmax(-1), mdp.actions, dtype=V.dtype)


def saddle_point(mdp: FiniteMDP, V_path: Array, *, eta_V: Scalar, k: int) -> Point:
    """(V*, alpha*, pi*), alpha* = flow from (1 - gamma^(k+1)) mu + 2 eta_V mu (V* - V_path); V_path <= V*."""
    V = hard_optimum(mdp)
    pi = optimal_policy(mdp, V)
    source = mdp.mu * (1 - mdp.gamma ** (k + 1) + 2 * eta_V * (V - V_path))
    return Point(V, flow(mdp, pi, source, k), pi)


def normalised_saddle_point(mdp: FiniteMDP, V_path: Array, *, eta_V: Scalar, k: int) -> Point:
    """The same with alpha's sum held at one: V* less a constant; only where this alpha is not negative."""
    V = hard_optimum(mdp)
    pi = optimal_policy(mdp, V)
    above = V - V_path - mdp.mu @ (V - V_path)
    alpha = flow(mdp, pi, mdp.mu * (1 - mdp.gamma ** (k + 1) + 2 * eta_V * above), k)
    return Point(V - mdp.mu @ (V - V_path), alpha, pi)


def best_V(mdp: FiniteMDP, alpha: Array, pi: Array, V_path: Array, *, eta_V: Scalar, k: int) -> Array:
    """argmin_V of the Lagrangian for an alpha that sums to one: the learner's goal, at every state.   [S]"""
    arriving = move(mdp, pi, k).T @ alpha
    return equations.V_goal(V_path, alpha / mdp.mu, arriving / mdp.mu, mdp.mu, eta_V=eta_V)


def ascend(
    mdp: FiniteMDP, *, eta_V: Scalar, k: int, iterations: int, alpha_step_size: Scalar, step_size: Scalar
) -> Point:
    """The learner with tables and exact means: V to its minimum, then a proximal step of alpha and one of pi.

    The behaviour policy is pi itself. pi's distance is E_mu[KL]: rare states move as fast as others.
    """

    def step(_: Array, z: Point) -> Point:
        V_path = evaluate(mdp, z.pi)
        z = z._replace(V=best_V(mdp, z.alpha, z.pi, V_path, eta_V=eta_V, k=k))
        g = jax.grad(lambda z: lagrangian(mdp, z, V_path, eta_V=eta_V, k=k))(z)
        log_alpha = equations.alpha_step(jnp.log(z.alpha), g.alpha, step_size=alpha_step_size)
        log_pi = kl_simplex(jnp.log(z.pi), -step_size * g.pi / mdp.mu[:, None])
        return Point(z.V, jnp.exp(log_alpha), jnp.exp(log_pi))

    start = Point(jnp.zeros_like(mdp.mu), mdp.mu, jnp.full_like(mdp.pi_b, 1 / mdp.actions))
    return jax.lax.fori_loop(0, iterations, step, start)
