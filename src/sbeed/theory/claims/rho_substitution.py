"""The dual as a backup instead of an error, and the trade-off it allows."""

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.enumerate import transitions
from sbeed.types import Key


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """For any rho: L(V, pi; rho - V) = L_1(V, pi; rho), and L_eta runs linearly from PCL's surrogate to it.

    rho <-> nu is one to one, so the two maxima agree as well: both are ell.
    """
    k_draw, k_rho = jax.random.split(key)
    point, etas = draw(mdp, k_draw), jnp.linspace(0, 1, 5)
    V, log_pi, lam = point.V, point.log_pi, point.lam
    rho = 3 * jax.random.normal(k_rho, mdp.R.shape)
    nu = equations.nu_from_rho(rho, V[:, None])
    best = exact.delta_bar(mdp, V, log_pi, lam)

    t = transitions(mdp)
    surrogate = equations.ell(exact.delta(mdp, V, log_pi, lam), V[t.s], t.weight)
    saddle = exact.L(mdp, V, log_pi, nu, lam)
    trade_off = jax.vmap(lambda eta: exact.L_eta(mdp, V, log_pi, rho, lam, eta))(etas)
    return every(
        equal(trade_off, (1 - etas) * surrogate + etas * saddle, 1e-10),
        equal(equations.rho_from_nu(nu, V[:, None]), rho, 1e-12),
        equal(exact.L_eta(mdp, V, log_pi, best, lam, 1.0), exact.ell(mdp, V, log_pi, lam), 1e-10),
    )


def counterexample() -> Claim:
    """nu = rho, with V forgotten, is another objective."""
    mdp = two_state(noise=0.2)
    point = draw(mdp, jax.random.key(1))
    rho = jax.random.normal(jax.random.key(2), mdp.R.shape)
    saddle = exact.L(mdp, point.V, point.log_pi, rho, point.lam)
    return equal(saddle, exact.L_eta(mdp, point.V, point.log_pi, rho, point.lam, 1.0))


STATEMENT = Statement(
    name="rho_substitution",
    says="nu = rho - V turns L into L_1 = L_eta at eta 1; eta 0 is PCL's surrogate, and L_eta is linear between",
    labels=("eq:variance_reduction", "eq:one_step_trade_off"),
    check=check,
    without="V in the substitution: nu = rho",
    counterexample=counterexample,
)
