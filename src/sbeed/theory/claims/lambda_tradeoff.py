"""What lam trades: smoothing bias against approximation error."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Statement, at_most, every
from sbeed.theory.operators import backup, hard_optimum, soft_optimum
from sbeed.types import Array, Key

LAMS = np.geomspace(0.01, 10, 10)


def pairs(x: Array) -> Array:
    """Aggregate the states two by two.   [S, A] -> [S / 2, 2, A]"""
    return x.reshape(-1, 2, x.shape[-1])


def approximation_error(groups: Array) -> Array:
    """min_p max |pi - p| over policies p that are the same within each group of states.

    Half the largest distance within a group: for two states their mean is a policy, and no other is closer to both.
    [groups, states, A], of one or two states each
    """
    return (groups.max(1) - groups.min(1)).max() / 2


def smoothing_bias(mdp: FiniteMDP) -> Array:
    """V*_lam - V* at every lam.   [L, S]"""
    return jax.vmap(lambda lam: soft_optimum(mdp, lam).V)(LAMS) - hard_optimum(mdp)


def solutions(mdp: FiniteMDP) -> Array:
    """pi*_lam at every lam.   [L, S, A]"""
    return jax.vmap(lambda lam: jnp.exp(soft_optimum(mdp, lam).log_pi))(LAMS)


def agreement_rises(errors: Array) -> Claim:
    """1 - eps_app, averaged over the MDPs, is higher by a tenth at the largest lam than at the smallest.   [M, L]"""
    agreement = 1 - errors.mean(0)
    return at_most(agreement[0] + 0.1, agreement[-1])


def check(mdps: FiniteMDP, key: Key) -> Claim:
    """V*_lam - V* rises in every state, at least as fast as lam; eps_app of paired states falls, at least as 1/lam.

    The fall is the average's: where the two states of each pair have the same best action, a policy of the class is
    optimal at lam = 0, and that MDP's eps_app rises first. For every MDP it is at most
    span(Q(s_1, .) - Q(s_2, .)) / (8 lam): softmax moves a probability by a quarter of its argument's span at most.
    """
    bias = jax.vmap(smoothing_bias)(mdps)
    errors = jax.vmap(lambda mdp: jax.vmap(lambda pi: approximation_error(pairs(pi)))(solutions(mdp)))(mdps)

    def most(mdp: FiniteMDP, V: Array) -> Array:
        Q = jax.vmap(lambda V: pairs(backup(mdp, V)))(V)
        return jnp.ptp(Q[:, :, 0] - Q[:, :, 1], axis=-1).max(-1) / (8 * LAMS)

    optimum, slope = bias + jax.vmap(hard_optimum)(mdps)[:, None], bias / LAMS[:, None]
    return every(
        at_most(jnp.max(-bias), 1e-9),
        # V*_lam = max_pi V^pi + lam H^pi is convex in lam, so its bias grows no slower than lam itself.
        at_most(jnp.max(slope[:, :-1] - slope[:, 1:]), 1e-9),
        at_most(jnp.max(errors / jax.vmap(most)(mdps, optimum)), 1),
        agreement_rises(errors),
    )


def counterexample() -> Claim:
    """A class of all policies: each state a group of its own, no approximation error at any lam, nothing to trade."""
    errors = jax.vmap(lambda pi: approximation_error(pi[:, None]))(solutions(two_state(noise=0.5)))
    return agreement_rises(errors[None])


STATEMENT = Statement(
    name="lambda_tradeoff",
    says="as lam rises so does V*_lam - V*, in every state, while a restricted policy class comes closer to pi*_lam",
    labels=("lemma:error_decomposition", "sec:main"),
    check=check,
    without="a restricted class: among all policies there is nothing to approximate and the smallest lam is best",
    counterexample=counterexample,
    asymptotic=True,
    pooled=True,
)
