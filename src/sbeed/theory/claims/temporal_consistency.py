"""Temporal consistency."""

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import Optimum, backup, hard_optimum, soft_optimum
from sbeed.types import Array, Key, Scalar

SCALES = (1e-4, 1e-2, 1.0, 10.0)


def residual(mdp: FiniteMDP, point: Optimum, lam: Scalar) -> Array:
    """e(s, a) = R + gamma E[V(s')] - lam log pi(a|s) - V(s)"""
    return exact.delta_bar(mdp, point.V, point.log_pi, lam) - point.V[:, None]


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """(V*_lam, pi*_lam) has e = 0 at every (s, a); any other pair is no further away than its residual allows:

        ||V - V*_lam||_inf <= ||e||_inf / (1 - gamma),    lam ||log pi - log pi*_lam||_inf <= 2 ||e||_inf / (1 - gamma).

    Since pi sums to one, V = lam log sum_a exp((Q - e) / lam) with Q = R + gamma E[V(s')], so |T_lam V - V| <= ||e||
    and the contraction gives the first; subtracting the equations of the two pairs, lam (log pi - log pi*) is
    gamma E[D(s')] - D(s) - e with D = V - V*_lam, at most (1 + gamma) ||D|| + ||e||: the second. e = 0: uniqueness.
    Likewise the pi that the equation makes of a V sums to one at V*_lam alone: lam |log sum_a pi| >= (1 - gamma) |D|.
    """
    noise = draw(mdp, key)
    lam, optimum = noise.lam, soft_optimum(mdp, noise.lam)

    def away(scale: Array) -> tuple[Array, Array, Array]:
        V = optimum.V + scale * noise.V
        point = Optimum(V, jax.nn.log_softmax(optimum.log_pi + scale * noise.logits))
        reach = jnp.abs(residual(mdp, point, lam)).max() / (1 - mdp.gamma)
        distance = jnp.abs(V - optimum.V).max()
        log_sum = lam * jax.nn.logsumexp((backup(mdp, V) - V[:, None]) / lam, axis=-1)
        return (
            distance / reach,
            lam * jnp.abs(point.log_pi - optimum.log_pi).max() / (2 * reach),
            (1 - mdp.gamma) * distance / jnp.abs(log_sum).max(),
        )

    return every(
        equal(residual(mdp, optimum, lam), 0.0, 1e-10),
        *(at_most(ratio.max(), 1.0) for ratio in jax.vmap(away)(jnp.array(SCALES))),
    )


def counterexample() -> Claim:
    """At lam = 0 the inferior action of a state breaks the equality: it holds only where the policy would go."""
    mdp = two_state()
    uniform = jnp.full((mdp.states, mdp.actions), -jnp.log(2.0))
    return equal(residual(mdp, Optimum(hard_optimum(mdp), uniform), 0.0), 0.0)


STATEMENT = Statement(
    name="temporal_consistency",
    says="(V*_lam, pi*_lam) alone solves V = R + gamma E V(s') - lam log pi for all (s, a); residuals bound distances",
    labels=("thm:smoothed_bellman_opt_pi", "eq:smoothed_bellman_opt_pi"),
    check=check,
    without="lam > 0: with a hard maximum an inferior action violates the equality",
    counterexample=counterexample,
)
