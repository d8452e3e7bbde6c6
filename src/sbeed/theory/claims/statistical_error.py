"""The statistical error of one long off-policy path."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, every
from sbeed.theory.claims.mixing import dobrushin, state_chain
from sbeed.theory.operators import soft_optimum
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.types import Array, Key, Scalar

LENGTHS = (10_000, 30_000, 100_000, 300_000, 1_000_000)  # T
PATHS = 160  # independent paths in all, at least one per MDP
CONFIDENCE = 0.05  # the theorem's delta


class ErrorCurve(NamedTuple):
    """Errors of the empirical optimum (V^, pi^) on the first T steps of each path."""

    T: Array  # [L]
    sup_error: Array  # ||V^ - V*_lam||_inf: [M, paths, L]
    loss_gap: Array  # eps_stat = ell(V^, pi^) - ell(V*_lam, pi*_lam), the latter being 0: [M, paths, L]
    bound: Array  # the theorem's, on eps_stat: [M, L]
    asymptote: Array  # what eps_stat is on average for large T: [M, L]


def error_curve(mdps: FiniteMDP, key: Key, lengths: tuple[int, ...] = LENGTHS) -> ErrorCurve:
    """The curves of a batch of M MDPs, each with its own lam."""

    def of_path(mdp: FiniteMDP, lam: Array, key: Key) -> tuple[Array, Array]:
        solution = soft_optimum(mdp, lam)

        def of_counts(counts: Array) -> tuple[Array, Array]:
            # With tables and eta = 1 the empirical loss reaches 0, at the soft optimum of the empirical MDP.
            found = soft_optimum(empirical_mdp(mdp, counts), lam)
            return jnp.abs(found.V - solution.V).max(), exact.ell(mdp, found.V, found.log_pi, lam)

        return jax.vmap(of_counts)(transition_counts(mdp, key, lengths))

    def of_mdp(mdp: FiniteMDP, key: Key) -> tuple[Array, Array, Array, Array]:
        k_draw, k_paths = jax.random.split(key)
        lam = draw(mdp, k_draw).lam
        sup_error, loss_gap = jax.vmap(lambda k: of_path(mdp, lam, k))(
            jax.random.split(k_paths, max(1, PATHS // count))
        )
        return sup_error, loss_gap, theorem_bound(mdp, lam, T), asymptote(mdp, lam, T)

    T, count = jnp.array(lengths, float), mdps.mu.shape[0]
    return ErrorCurve(T, *jax.vmap(of_mdp)(mdps, jax.random.split(key, count)))


class Rate(NamedTuple):
    """A mean log-log slope and half the width of its 95% interval."""

    slope: Array
    half_width: Array


def rate(T: Array, errors: Array) -> Rate:
    """The slope of log error in log T, fitted to each path: the paths are independent, the points of one are not.

    errors: [..., L]
    """
    x = jnp.log(T) - jnp.log(T).mean()
    slopes = jnp.ravel(jnp.log(errors) @ x / (x @ x))
    return Rate(slopes.mean(), 1.96 * slopes.std(ddof=1) / jnp.sqrt(slopes.size))


def theorem_bound(mdp: FiniteMDP, lam: Scalar, T: Array) -> Array:
    """2 sqrt(M max(M/b, 1)^(1/kappa) / (C_2 T)) with the constants of the appendix, for tables.   [L]"""
    # beta_m <= beta_bar exp(-b m), kappa = 1; a sample also holds its next state, so it lags the states by one step.
    alpha = dobrushin(state_chain(mdp))
    b, beta_bar = -jnp.log(alpha), 1 / alpha
    C_R, C_pi = jnp.abs(mdp.R).max(), jnp.abs(soft_optimum(mdp, lam).log_pi).max()
    C = 2 * C_R / (1 - mdp.gamma) + lam * C_pi
    # Pseudo-dimensions of tables; each state's normalisation takes one from log pi.
    pairs = mdp.states * mdp.actions
    D_V, D_pi, D_nu = mdp.states, pairs - mdp.states, pairs
    D = D_V + D_pi + D_nu
    C_2 = (1 / (8 * C)) ** 2 / 2
    log_C_1 = 3 + np.log((D_V + 1) * (D_pi + 1) * (D_nu + 1)) + D * jnp.log(768 * jnp.e * C**2)
    log_larger = jnp.maximum(log_C_1 + D / 2 * jnp.log(C_2), jnp.log(beta_bar))
    M = D / 2 * jnp.log(T) + 1 - np.log(CONFIDENCE) + jnp.maximum(log_larger, 0)
    return 2 * jnp.sqrt(M * jnp.maximum(M / b, 1) / (C_2 * T))


def asymptote(mdp: FiniteMDP, lam: Scalar, T: Array) -> Array:
    """gamma^2 / T sum_{s,a} Var[V*_lam(s') | s, a]

    At the empirical optimum the residual is gamma (P - P^) V^, its square Var[V] over the visits T mu pi_b: the weight
    of a pair cancels, so rare pairs cost as much as common ones.
    """
    V = soft_optimum(mdp, lam).V
    return mdp.gamma**2 * jnp.sum(mdp.P @ V**2 - (mdp.P @ V) ** 2) / T


def at_root_rate(sup_error: Rate) -> Claim:
    """The whole interval of the slope lies within .1 of -1/2."""
    return at_most(jnp.abs(sup_error.slope + 0.5) + sup_error.half_width, 0.1)


def check(mdps: FiniteMDP, key: Key) -> Claim:
    """sup |V^ - V*_lam| falls as T^-1/2; eps_stat, quadratic in it, at least as fast and under the theorem's bound.

    The theorem promises the bound for a share 1 - delta of the paths; all of them are asked for. At the largest T
    eps_stat is its asymptote, constant included, as far as the paths tell: within five standard errors of their
    mean, which chance exceeds once in a million runs.
    """
    curve = error_curve(mdps, key)
    loss_gap = rate(curve.T, curve.loss_gap)
    shares = curve.loss_gap[..., -1] / curve.asymptote[:, None, -1]
    return every(
        at_root_rate(rate(curve.T, curve.sup_error)),
        # Slope at most -1/2, written with a positive right-hand side.
        at_most(0.5, -(loss_gap.slope + loss_gap.half_width)),
        at_most(jnp.max(curve.loss_gap / curve.bound[:, None]), 1),
        at_most(jnp.abs(shares.mean() - 1), 5 * shares.std(ddof=1) / np.sqrt(shares.size)),
    )


def counterexample() -> Claim:
    """Two closed classes of states: a path never leaves the one that it starts in, and learns nothing of the other."""
    P = np.zeros((4, 2, 4))
    P[:2, :, :2] = [[0.9, 0.1], [0.2, 0.8]]
    P[2:, :, 2:] = [[0.3, 0.7], [0.6, 0.4]]
    mdp = finite_mdp(P, [[1.0, 0.0], [0.0, -1.0], [2.0, 1.0], [-1.0, 0.0]])
    batch = jax.tree.map(lambda x: x[None], mdp)
    curve = error_curve(batch, jax.random.key(0), lengths=(1_000, 100_000))
    return at_root_rate(rate(curve.T, curve.sup_error))


STATEMENT = Statement(
    name="statistical_error",
    says="on one path of T steps sup |V^ - V*_lam| ~ T^-1/2; eps_stat falls faster, under the theorem's bound",
    labels=("thm:statistical_error", "asmp:sample_measure"),
    check=check,
    without="ergodicity: a chain with two closed classes hides one of them from the path",
    counterexample=counterexample,
    stationary=True,
    asymptotic=True,
    pooled=True,
)
