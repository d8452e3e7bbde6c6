"""Several steps in Q-coordinates, off-policy."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import Q_of, V_of, log_pi_of
from sbeed.envs.tabular import FiniteMDP, telling_actions
from sbeed.theory import exact, q_form
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.claims.multi_step_consistency import LONGEST, STEPS, telescope
from sbeed.theory.enumerate import given_actions, paths
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """E = sum_{i<k} (gamma trace)^i td_i is the paper's k-step or trace error of (V_Q, pi_Q), on every path, for any Q.

    At Q* its mean given (s_0, a_0) is 0 whatever chose the later actions, even by looking at all the past: the mean of
    td_i given all up to a_i is 0, and no importance weights are missing. Nowhere else is it 0 under pi_b at every pair:
    it is sum_{i<k} C^i e, C = trace gamma P_b over pairs, and that sum of powers is invertible.
    The terms Q(s_i, a_i) - V_Q(s_i), i > 0, must not be left out: they are lam log pi_Q, and a return without them is
    that of whoever acted.
    """
    k_draw, k_trace, k_Q, k_policy = jax.random.split(key, 4)
    lam, trace = draw(mdp, k_draw).lam, jax.random.uniform(k_trace)
    V, log_pi = soft_optimum(mdp, lam)
    best, other = Q_of(V, log_pi, lam=lam), 3 * jax.random.normal(k_Q, mdp.R.shape)
    V_other, log_pi_other = V_of(other, lam=lam), log_pi_of(other, lam=lam)
    p = paths(mdp, LONGEST)
    sums = [(k, 1.0) for k in STEPS] + [(LONGEST, trace)]

    def errors(Q: Array) -> Array:
        """[sums, n]"""
        return jnp.stack([q_form.path_errors(mdp, p, Q, lam, c, k) for k, c in sums])

    def mean(errors: Array, seen: int, weight: Array) -> Array:
        return given_actions(mdp, LONGEST, seen, errors, weight)

    delta = [exact.delta_k_step(mdp, p, V_other, log_pi_other, lam, k) for k in STEPS]
    delta.append(exact.delta_trace(mdp, p, V_other, log_pi_other, lam, trace))
    at_best, elsewhere = errors(best), errors(other)
    of_pairs = mean(elsewhere, 1, p.weight).reshape(len(sums), mdp.states, mdp.actions, -1)[..., 0]
    one_step = q_form.delta_bar(mdp, other, lam) - other
    return every(
        equal(elsewhere, jnp.stack(delta) - V_other[p.s[:, 0]], 1e-10),
        equal(mean(at_best, 1, p.weight), 0.0),
        equal(mean(at_best, 1, p.open_loop * by_history(mdp, k_policy)), 0.0),
        *(telescope(E, one_step, k, behaving(mdp, c)) for E, (k, c) in zip(of_pairs, sums)),
    )


def by_history(mdp: FiniteMDP, key: Key) -> Array:
    """The probability of every path's actions under a random policy that looks at all that has happened.   [n]"""
    grid = (mdp.states,) + (mdp.actions, mdp.states) * LONGEST
    chosen = jnp.ones(grid)
    for i, k_step in enumerate(jax.random.split(key, LONGEST)):
        past = grid[: 2 * i + 1]
        pi = jax.nn.softmax(2 * jax.random.normal(k_step, (*past, mdp.actions)))
        chosen = chosen * pi.reshape(*pi.shape, *(1,) * (len(grid) - pi.ndim))
    return chosen.ravel()


def behaving(mdp: FiniteMDP, decay: Scalar) -> Callable[[Array], Array]:
    """C = decay gamma P_b over pairs: the next action is pi_b's.   [S, A] -> [S, A]"""
    return lambda x: decay * mdp.gamma * mdp.P @ jnp.sum(mdp.pi_b * x, axis=-1)


def counterexample() -> Claim:
    """The two-step return of whoever acted: its own log in the place of lam log pi_Q(a_1|s_1), and no weights."""
    mdp, lam = telling_actions(), 0.1
    V, log_pi = soft_optimum(mdp, lam)
    Q, p = Q_of(V, log_pi, lam=lam), paths(mdp, 2)
    entropy = -lam * jnp.log(mdp.pi_b)[p.s[:, 1], p.a[:, 1]]
    target = p.r[:, 0] + mdp.gamma * (p.r[:, 1] + entropy) + mdp.gamma**2 * V[p.s[:, 2]]
    return equal(given_actions(mdp, 2, 1, target, p.weight), Q[p.s[:, 0], p.a[:, 0]])


STATEMENT = Statement(
    name="q_path_consistency",
    says="at Q* alone the mean of sum_i (gamma trace)^i td_i is 0 at each (s, a), there whatever chose later actions",
    labels=("eq:multi_step_smooth_bellman", "eq:trace_smooth_bellman"),
    check=check,
    without="lam log of pi_Q itself for later actions: with the behaviour's own, its k-step return is biased",
    counterexample=counterexample,
    states=3,
    actions=2,
)
