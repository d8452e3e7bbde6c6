"""Stationary points of the loss."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import soft_optimum
from sbeed.theory.solve import newton
from sbeed.types import Array, Key, Scalar

Tables = tuple[Array, Array]  # V [S] and logits [S, A]


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """At every point the gradient bounds the mean error and the distance to V*_lam; descent ends there.

    The proof is in docs/proofs.md.
    """
    point = draw(mdp, key)
    lam, V, logits = point.lam, point.V, point.logits
    g_V, g_pi = gradients(mdp, (V, logits), lam)
    pi, weight = jnp.exp(point.log_pi), mdp.mu[:, None] * mdp.pi_b
    e = exact.delta_bar(mdp, V, point.log_pi, lam) - V[:, None]
    m = jnp.sum(weight * e, -1)
    slope = jnp.abs(g_V).sum() + jnp.abs(g_pi).sum() / lam
    mean_error = jnp.sum(weight * jnp.abs(e))
    optimum = soft_optimum(mdp, lam).V
    found = descend(mdp, (V, logits), lam)
    return every(
        equal(weight * e, pi * m[:, None] - g_pi / (2 * lam)),
        equal(
            m - mdp.gamma * jnp.einsum("sa,sat,s->t", pi, mdp.P, m),
            -g_V / 2 - mdp.gamma / (2 * lam) * jnp.einsum("sat,sa->t", mdp.P, g_pi),
        ),
        at_most(mean_error, slope / (2 * (1 - mdp.gamma))),
        at_most(jnp.abs(V - optimum).max(), slope / (2 * (1 - mdp.gamma) ** 2 * weight.min())),
        equal(found[0], optimum),
    )


def gradients(mdp: FiniteMDP, z: Tables, lam: Scalar) -> Tables:
    """The gradients of ell in V and in the logits."""

    def ell(V: Array, logits: Array) -> Array:
        return exact.ell(mdp, V, jax.nn.log_softmax(logits), lam)

    return jax.grad(ell, (0, 1))(*z)


def descend(mdp: FiniteMDP, start: Tables, lam: Scalar) -> Tables:
    """Newton's descent on ell, in (V, lam logits): both then change the error by about as much as they move."""
    V, logits = start
    w, tables = ravel_pytree((V, lam * logits))

    def ell(w: Array) -> Array:
        V, scaled_logits = tables(w)
        return exact.ell(mdp, V, jax.nn.log_softmax(scaled_logits / lam), lam)

    V, scaled_logits = tables(newton(ell, w, iterations=40))
    return V, scaled_logits / lam


def counterexample() -> Claim:
    """pi_b never takes the action that pays, so V of the other action alone has no loss and no slope."""
    mdp = finite_mdp([[[1], [1]]], [[0.0, 1.0]], pi_b=[[1.0, 0.0]])
    V, _ = descend(mdp, (jnp.zeros(1), jnp.zeros((1, 2))), 0.5)
    return equal(V, soft_optimum(mdp, 0.5).V)


STATEMENT = Statement(
    name="stationary_optimality",
    says="with tables E|e| <= (|g_V|_1 + |g_pi|_1 / lam) / (2 (1 - gamma)): no stationary point but the optimum",
    labels=("eq:simplified_smooth_bellman_loss",),
    check=check,
    without="full support: pi_b never tries one action",
    counterexample=counterexample,
)
