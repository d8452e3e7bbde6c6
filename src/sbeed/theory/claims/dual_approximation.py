"""The price of a small dual class."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.ops.linalg import ridge_solve
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Draw, Statement, at_most, draw, equal, every
from sbeed.types import Array, Key

FEATURES = 7  # fewer than the S A = 18 pairs


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """ell - max over H of L = dist_2(nu*, H)^2 <= (K + C_inf) dist_2, for H the span of random features.

    The paper's sup-norm distance is larger, so this is the stronger claim.
    """
    k_point, k_features = jax.random.split(key)
    point = draw(mdp, k_point)
    weight = mdp.mu[:, None] * mdp.pi_b
    nu = error(mdp, point)
    phi = jax.random.normal(k_features, (*nu.shape, FEATURES))
    gram = jnp.einsum("sa,sai,saj->ij", weight, phi, phi)
    best = phi @ ridge_solve(gram, jnp.einsum("sa,sai->i", weight * nu, phi), ridge=0.0)
    other = phi.sum(-1)  # some element of H
    gap = loss_gap(mdp, point, best)
    distance = jnp.sum(weight * (nu - best) ** 2)
    return every(
        equal(gap, distance),
        equal(loss_gap(mdp, point, best + other), distance + jnp.sum(weight * other**2)),  # best is the maximum
        at_most(gap, bound(mdp, point) * jnp.sqrt(distance)),
    )


def error(mdp: FiniteMDP, point: Draw) -> Array:
    """nu* = E[delta | s, a] - V(s), the dual's optimum over all functions."""
    return exact.delta_bar(mdp, point.V, point.log_pi, point.lam) - point.V[:, None]


def loss_gap(mdp: FiniteMDP, point: Draw, nu: Array) -> Array:
    """ell(V, pi) - L(V, pi; nu)"""
    ell = exact.ell(mdp, point.V, point.log_pi, point.lam)
    return ell - exact.L(mdp, point.V, point.log_pi, nu, point.lam)


def bound(mdp: FiniteMDP, point: Draw) -> Array:
    """K + C_inf: x^2 is 2 max|e|-Lipschitz where the errors are; C_inf = max{C_R / (1 - gamma), C_pi}."""
    C_R, C_pi = jnp.abs(mdp.R).max(), jnp.abs(point.log_pi).max()
    return 2 * jnp.abs(error(mdp, point)).max() + jnp.maximum(C_R / (1 - mdp.gamma), C_pi)


def counterexample() -> Claim:
    """A class that holds one large constant and not 0: its maximum of L is far below any multiple of the distance."""
    mdp = two_state()
    point = Draw(jnp.array(0.1), jnp.ones(2), jnp.zeros((2, 2)))
    nu = jnp.full_like(mdp.pi_b, 1e3)
    distance = jnp.sqrt(jnp.sum(mdp.mu[:, None] * mdp.pi_b * (error(mdp, point) - nu) ** 2))
    return at_most(loss_gap(mdp, point, nu), bound(mdp, point) * distance)


STATEMENT = Statement(
    name="dual_approximation",
    says="a linear dual class that contains 0 loses dist_2(nu*, H)^2, which is at most (K + C_inf) eps_nu",
    labels=("cor:dual_approx_error",),
    check=check,
    without="a dual class that contains 0",
    counterexample=counterexample,
)
