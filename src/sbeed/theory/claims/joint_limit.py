"""The joint limit: lam to zero, N and T to infinity."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, at_most, every
from sbeed.theory.operators import hard_optimum, state_norm
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.theory.solve import Point, algorithm_1, origin
from sbeed.types import Array, Key

# lam_i falls, and with it the statistical error ~ T_i^-1/2 and the optimisation error.
LAMS = np.array([1.0, 0.3, 0.1, 0.03])
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)  # T_i ~ lam_i^-2
ROUND = 100
ROUNDS = np.array([1, 3, 10, 30])  # N_i = ROUND * ROUNDS ~ 1 / lam_i


def errors(mdp: FiniteMDP, key: Key, lams: np.ndarray) -> tuple[Array, Array]:
    """||V^N - V*|| of every stage in the sup norm and in the paper's: N_i steps of Algorithm 1 on T_i samples."""
    optimum = hard_optimum(mdp)

    def stage(z: Point, x: tuple[Array, Array, Array, Array]) -> tuple[Point, tuple[Array, Array]]:
        lam, cooling, rounds, counts = x
        # One imagined visit of each pair keeps the rarest in play; its share vanishes like 1/T.
        sample = empirical_mdp(mdp, counts + 1 / mdp.states)
        # The next stage starts from the same lam log pi.
        z = Point(z.V, cooling * z.log_pi)
        z = jax.lax.fori_loop(0, rounds, lambda _, z: algorithm_1(sample, lam, iterations=ROUND, start=z), z)
        return z, (jnp.abs(z.V - optimum).max(), state_norm(mdp, z.V - optimum))

    cooling = np.append(1.0, lams[:-1] / lams[1:])
    schedule = (jnp.asarray(lams), jnp.asarray(cooling), jnp.asarray(ROUNDS), transition_counts(mdp, key, LENGTHS))
    return jax.lax.scan(stage, origin(mdp), schedule)[1]


def vanishing(mdp: FiniteMDP, norms: tuple[Array, Array]) -> Claim:
    """Stage i is within 2 lam_i log A / (1 - gamma): half for smoothing, half for data and steps.

    lam_i is the schedule's. As that predicts, the error falls from first to last by no less than lam does.
    """
    most = 2 * LAMS * jnp.log(mdp.actions) / (1 - mdp.gamma)
    sup, paper = norms
    return every(
        *map(at_most, sup, most),
        *map(at_most, paper, (1 + mdp.gamma) * most),
        *(at_most(norm[-1], LAMS[-1] / LAMS[0] * norm[0]) for norm in norms),
    )


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||V^N - V*|| -> 0 in both norms with tables, a class without approximation error."""
    return vanishing(mdp, errors(mdp, key, LAMS))


def counterexample() -> Claim:
    """lam kept at 1: more data and more steps only come closer to V*_1."""
    mdp = two_state(noise=0.5)
    return vanishing(mdp, errors(mdp, jax.random.key(0), np.ones_like(LAMS)))


STATEMENT = Statement(
    name="joint_limit",
    says=(
        "with tables and Algorithm 1 in the residual's norm (a prox of the paper's own norm ||.||_{mu pi_b}) "
        "||V^N - V*|| goes to 0 in both norms as lam -> 0 and N, T -> infinity"
    ),
    labels=("thm:error_decomposition", "alg:sbeed"),
    check=check,
    without="lam -> 0: at a fixed lam the smoothing bias stays",
    counterexample=counterexample,
    asymptotic=True,
)
