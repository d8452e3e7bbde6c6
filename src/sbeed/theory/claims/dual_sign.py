"""The sign of the dual's step."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.ops import prox
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Draw, Statement, at_most, draw, equal, every
from sbeed.types import Array, Key


def printed_gradient(mdp: FiniteMDP, point: Draw, rho: Array) -> Array:
    """G_rho = -E[(delta - rho) grad rho] for a table rho: half the gradient of E[(delta - rho)^2].   [S, A]"""
    return -mdp.mu[:, None] * mdp.pi_b * (exact.delta_bar(mdp, point.V, point.log_pi, point.lam) - rho)


def dual_loss(mdp: FiniteMDP, point: Draw, rho: Array) -> Array:
    return exact.dual_loss(mdp, point.V, point.log_pi, rho, point.lam)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """P_rho(step_size G_rho), step_size <= 1: E[(delta - rho)^2] falls and L_eta rises by half the slope's promise.

    Each is tested by what is missing of the promise: a step the wrong way misses twice all of it.
    """
    k_point, k_rho = jax.random.split(key)
    point = draw(mdp, k_point)
    rho = 3 * jax.random.normal(k_rho, mdp.pi_b.shape)
    step_size, eta = point.lam, jax.nn.sigmoid(point.V[0])  # two more random numbers in (0, 1]
    G = printed_gradient(mdp, point, rho)
    new = prox.euclidean(rho, step_size * G)
    promise = 2 * step_size * jnp.sum(G**2)  # what E[(delta - rho)^2] would fall by if it were linear

    def L_eta(rho: Array) -> Array:
        return exact.L_eta(mdp, point.V, point.log_pi, rho, point.lam, eta)

    return every(
        equal(2 * G, jax.grad(lambda rho: dual_loss(mdp, point, rho))(rho)),
        at_most(promise - (dual_loss(mdp, point, rho) - dual_loss(mdp, point, new)), promise / 2),
        at_most(eta * promise - (L_eta(new) - L_eta(rho)), eta * promise / 2),
    )


def counterexample() -> Claim:
    """P_rho(-step_size G_rho), as printed."""
    mdp = two_state(noise=0.5)
    point = Draw(jnp.array(0.1), jnp.ones(2), jnp.zeros((2, 2)))
    rho = jnp.zeros_like(mdp.pi_b)
    new = prox.euclidean(rho, -0.1 * printed_gradient(mdp, point, rho))
    return at_most(dual_loss(mdp, point, new), dual_loss(mdp, point, rho))


STATEMENT = Statement(
    name="dual_sign",
    says="the step P(+xi G_rho) descends E[(delta - rho)^2] and ascends L_eta over rho",
    labels=("alg:sbeed_dual_nn",),
    check=check,
    without="the descending sign: alg:sbeed_dual_nn prints P(-xi G_rho) (erratum E1)",
    counterexample=counterexample,
)
