"""Where the Q-form ends on the data of a path."""

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import Q_of, V_of, log_pi_of
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory.claim import Claim, Draw, Statement, at_most, draw, equal, every
from sbeed.theory.claims import q_gradient, sampled_optimum, stationary_optimality
from sbeed.theory.operators import soft_optimum
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.theory.solve import newton
from sbeed.types import Array, Key, Scalar

STEPS = 100_000  # of the path


def minimiser(data: FiniteMDP, start: Array, lam: Scalar, eta: Scalar) -> Array:
    """argmin_Q max_rho L_eta(Q; rho) on the data, by Newton's descent.   [S, A]"""

    def loss(q: Array) -> Array:
        return q_gradient.maximised(data, q.reshape(start.shape), lam, eta)

    return newton(loss, start.ravel(), iterations=60).reshape(start.shape)


def same(mdp: FiniteMDP, point: Draw, key: Key, eta: Scalar) -> Claim:
    lam, counts = point.lam, transition_counts(mdp, key, (STEPS,))[0]
    data = empirical_mdp(mdp, counts)
    Q = minimiser(data, Q_of(*point.point, lam=lam), lam, eta)
    V, logits = stationary_optimality.descend(data, (point.V, point.logits), lam)
    truth = soft_optimum(mdp, lam)
    error = sampled_optimum.standard_error(mdp, truth, counts.sum(-1))
    found = V_of(Q, lam=lam)
    return every(
        equal(found, V, 1e-8),
        equal(log_pi_of(Q, lam=lam), jax.nn.log_softmax(logits), 1e-6),
        equal(found, soft_optimum(data, lam).V, 1e-8),
        at_most(jnp.max(jnp.abs(found - truth.V) / error), sampled_optimum.TO_TRUTH),
    )


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """From one start, Q down max_rho L_1(Q; rho) and (V, pi) down ell(V, pi) end at the same pair: the data's optimum.

    Which is V*_lam up to the standard error of V: what is left is the data's error, not the objective's.
    """
    k_draw, k_path = jax.random.split(key)
    return same(mdp, draw(mdp, k_draw), k_path, 1.0)


def counterexample() -> Claim:
    """eta = 0: the residual gradient's Q makes Var[gamma V_Q(s')] small as well."""
    mdp = two_state(noise=0.5)
    return same(mdp, Draw(jnp.array(0.1), jnp.zeros(2), jnp.zeros((2, 2))), jax.random.key(1), 0.0)


STATEMENT = Statement(
    name="q_same_optimum",
    says="on one path's data the Q-form with the exact dual and eta 1 ends where the (V, pi) form does, near V*_lam",
    labels=("eq:one_step_trade_off",),
    check=check,
    without="eta = 1: without the dual term Q ends elsewhere where transitions are stochastic",
    counterexample=counterexample,
    asymptotic=True,
    states=4,
    actions=2,
)
