"""What lam trades: smoothing bias against approximation error."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, garnet
from sbeed.theory.claim import Claim, Statement, at_most, every
from sbeed.theory.operators import Optimum, backup, hard_optimum, policy_value, soft_optimum
from sbeed.types import Array, Key

LAMS = np.geomspace(0.01, 10, 10)
PolicyClass = Callable[[Array], Array]  # pi [S, A] -> the policy of the class that stands for it


def blind(pi: Array) -> Array:
    """Policies that do not see the state: the mean of pi over the states."""
    return jnp.broadcast_to(pi.mean(0), pi.shape)


def solutions(mdp: FiniteMDP) -> Optimum:
    """(V*_lam, log pi*_lam) at every lam.   [L, ...]"""
    return jax.vmap(lambda lam: soft_optimum(mdp, lam))(LAMS)


def smoothing_bias(mdp: FiniteMDP, found: Optimum) -> Array:
    """V*_lam - V* at every lam.   [L, S]"""
    return found.V - hard_optimum(mdp)


def approximation_error(mdp: FiniteMDP, found: Optimum, policy_class: PolicyClass) -> Array:
    """V*_lam - V^p_lam at every lam: the smoothed value that the class's policy p loses.   [L, S]"""
    log_p = jnp.log(jax.vmap(policy_class)(jnp.exp(found.log_pi)))
    return found.V - jax.vmap(lambda log_p, lam: policy_value(mdp, log_p, lam))(log_p, LAMS)


def most_approximation_error(mdp: FiniteMDP, found: Optimum) -> Array:
    """max_{s,t} span(Q*_lam(s, .) - Q*_lam(t, .))^2 / (8 lam (1 - gamma)), for the blind class.   [L]"""
    Q = jax.vmap(lambda V: backup(mdp, V))(found.V)
    span = jnp.ptp(Q[:, :, None] - Q[:, None], axis=-1).max((1, 2))
    return span**2 / (8 * LAMS * (1 - mdp.gamma))


def least_inside(bias: Array, loss: Array) -> Claim:
    """The sum of the two errors' sup norms, averaged over MDPs, is less by a tenth inside than at both ends.

    bias, loss: [M, L, S]
    """
    total = jnp.mean(bias.max(-1) + loss.max(-1), axis=0)
    return at_most(total[1:-1].min(), 0.9 * jnp.minimum(total[0], total[-1]))


def check(mdps: FiniteMDP, key: Key) -> Claim:
    """In every MDP the bias rises at least as lam and the loss of the blind class is O(1/lam); their sum is traded.

    The trade is the average's: one MDP in thirty has nearly the same best action everywhere, and no use for a lam > 0.
    """
    found = jax.vmap(solutions)(mdps)
    bias = jax.vmap(smoothing_bias)(mdps, found)
    loss = jax.vmap(lambda mdp, found: approximation_error(mdp, found, blind))(mdps, found)
    slope = bias / LAMS[:, None]
    return every(
        at_most(jnp.max(-bias), 1e-9),
        # V*_lam = max_pi V^pi + lam H^pi is convex in lam, so its bias grows no slower than lam itself.
        at_most(jnp.max(slope[:, :-1] - slope[:, 1:]), 1e-9),
        at_most(jnp.max(-loss), 1e-9),
        at_most(jnp.max(loss.max(-1) - jax.vmap(most_approximation_error)(mdps, found)), 1e-9),
        least_inside(bias, loss),
    )


def counterexample() -> Claim:
    """A class of all policies loses nothing at any lam."""
    mdp = garnet(jax.random.key(0))
    found = solutions(mdp)
    return least_inside(smoothing_bias(mdp, found)[None], approximation_error(mdp, found, lambda pi: pi)[None])


STATEMENT = Statement(
    name="lambda_tradeoff",
    says=(
        "V*_lam - V* rises with lam, a policy class blind to the state loses less of V*_lam; on average over MDPs the "
        "sum of the two is least at a lam between"
    ),
    labels=("lemma:error_decomposition", "sec:main"),
    check=check,
    without="a restricted class: among all policies there is nothing to approximate and the smallest lam is best",
    counterexample=counterexample,
    pooled=True,
)
