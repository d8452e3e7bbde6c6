"""Algorithm 1 with tables and exact expectations."""

import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, at_most, draw, every
from sbeed.theory.operators import soft_optimum
from sbeed.theory.solve import Point, algorithm_1, origin, settled
from sbeed.types import Array, Key, Scalar

ROUND, ROUNDS = 1_000, 100  # iterations per round, and rounds at most


def reaches(mdp: FiniteMDP, lam: Scalar, start: Point, eta: Scalar) -> Claim:
    """|V - V*_lam| <= 1e-8 at every state and |pi - pi*_lam| <= 1e-6 at every pair."""

    def round_of_steps(_: Array, z: Point) -> Point:
        return algorithm_1(mdp, lam, iterations=ROUND, start=z, eta=eta)

    optimum, z = soft_optimum(mdp, lam), settled(round_of_steps, start, 1e-10, most=ROUNDS)
    return every(
        at_most(jnp.abs(z.V - optimum.V).max(), 1e-8),
        at_most(jnp.abs(jnp.exp(z.log_pi) - jnp.exp(optimum.log_pi)).max(), 1e-6),
    )


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """From a random start, with constant steps and a random lam."""
    point = draw(mdp, key)
    return reaches(mdp, point.lam, Point(point.V, point.logits), 1.0)


def counterexample() -> Claim:
    """eta = 0 (PCL) converges too, to the minimum of ell + E Var[gamma V(s')]."""
    mdp = two_state(noise=0.5)
    return reaches(mdp, 0.1, origin(mdp), 0.0)


STATEMENT = Statement(
    name="tabular_optimum",
    says=(
        "Algorithm 1 with tables, in the residual's norm (a prox of the paper's own norm ||.||_{mu pi_b}) and with "
        "constant steps, reaches V*_lam to 1e-8 and pi*_lam to 1e-6"
    ),
    labels=("alg:sbeed",),
    check=check,
    without="eta = 1: without the dual term (PCL) the limit is biased where transitions are stochastic",
    counterexample=counterexample,
    asymptotic=True,
)
