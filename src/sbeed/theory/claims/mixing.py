"""The assumptions on the MDP and on the sample path."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory.claim import Claim, Statement, at_most, equal, every
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar

LONGEST = 100  # gaps m = 1, ..., 100


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """beta_m <= beta_bar exp(-b m), kappa = 1 and b = -log of Dobrushin's coefficient, for states and for pairs.

    An envelope with b = 0 says nothing: `forgets` asks for the decay itself. And |log pi*_lam| <= C_pi =
    (2 C_R / lam + log A) / (1 - gamma).
    """
    chain = state_chain(mdp)
    b = -jnp.log(dobrushin(chain))
    m = jnp.arange(1, LONGEST + 1)
    states, pairs = beta(mdp, chain)
    lam = jnp.array([0.05, 1.0])
    log_pi = jax.vmap(lambda lam: soft_optimum(mdp, lam).log_pi)(lam)
    C_pi = (2 * jnp.abs(mdp.R).max() / lam + jnp.log(mdp.actions)) / (1 - mdp.gamma)
    return every(
        at_most(jnp.max(jnp.abs(log_pi) / C_pi[:, None, None]), 1.0),
        equal(mdp.mu @ chain, mdp.mu),
        at_most(jnp.max(states / envelope(m, b, kappa=1)), beta_0(mdp)),
        # The action is drawn afresh in the state, so the pairs lag the states by one step.
        at_most(jnp.max(pairs / envelope(m - 1, b, kappa=1)), 1.0),
        forgets(mdp, states),
    )


def forgets(mdp: FiniteMDP, states: Array) -> Claim:
    """beta_100 <= beta_0 / 2.   Every step of a garnet goes anywhere with chance .01, so .99^100 = .37 is certain."""
    return at_most(states[-1], beta_0(mdp) / 2)


def beta_0(mdp: FiniteMDP) -> Array:
    """sum_s mu(s) TV(1{s}, mu): of a state and itself."""
    return 1 - mdp.mu @ mdp.mu


def state_chain(mdp: FiniteMDP) -> Array:
    """P^{pi_b}(s'|s).   [S, S]"""
    return jnp.einsum("sa,sat->st", mdp.pi_b, mdp.P)


def dobrushin(chain: Array) -> Array:
    """The largest total variation between two rows: how much of their difference one step can keep."""
    return jnp.max(jnp.abs(chain[:, None] - chain[None]).sum(-1)) / 2


def beta(mdp: FiniteMDP, chain: Array) -> tuple[Array, Array]:
    """beta_m = sum_s mu(s) TV(P^m(s, .), mu), m = 1, ..., LONGEST, and that of pairs (s, a).   [LONGEST] both"""
    centred = chain - mdp.mu  # (chain - 1 mu)^m = chain^m - 1 mu: no digits are lost as m grows

    def step(gap: Array, _: None) -> tuple[Array, Array]:
        return gap @ centred, jnp.abs(gap).sum(-1) / 2

    _, states = jax.lax.scan(step, centred, length=LONGEST)
    _, pairs = jax.lax.scan(step, (mdp.P - mdp.mu).reshape(-1, mdp.states), length=LONGEST)
    return states @ mdp.mu, pairs @ (mdp.mu[:, None] * mdp.pi_b).ravel()


def envelope(m: Scalar, b: Scalar, kappa: float) -> Array:
    """exp(-b m^kappa), the exponential rate of asmp:sample_measure."""
    return jnp.exp(-b * jnp.asarray(m, float) ** kappa)


def counterexample() -> Claim:
    """Two states that take turns: P^m(s, .) is certain at every m, and beta_m = beta_0 = 1/2 for ever."""
    mdp = finite_mdp(np.eye(2)[::-1, None], np.zeros((2, 1)))
    return forgets(mdp, beta(mdp, state_chain(mdp))[0])


STATEMENT = Statement(
    name="mixing",
    says="a finite MDP is regular; if pi_b's chain is ergodic, beta_m <= beta_bar exp(-b m^kappa), kappa = 1, b > 0",
    labels=("asmp:sample_measure", "asmp:mdp_reg"),
    check=check,
    without="aperiodicity: of two states that take turns, one tells the other after any number of steps",
    counterexample=counterexample,
    stationary=True,
)
