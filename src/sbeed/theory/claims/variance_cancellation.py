"""What the dual cancels."""

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, draw, equal, every
from sbeed.theory.enumerate import transitions
from sbeed.types import Array, Key


def bootstrap_variance(mdp: FiniteMDP, V: Array) -> Array:
    """gamma^2 E_{s,a}[Var[V(s') | s, a]]"""
    expected = mdp.P @ V
    variance = jnp.sum(mdp.P * (V - expected[..., None]) ** 2, axis=-1)
    return mdp.gamma**2 * jnp.sum(mdp.mu[:, None] * mdp.pi_b * variance)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """max_rho -E[(delta - rho)^2] = -gamma^2 E Var[V(s')], and where that variance goes:

    E[(delta - rho)^2] = gamma^2 E Var + E[(rho - rho*)^2] for any rho, least at rho* = E[delta | s, a];
    PCL's surrogate is ell + gamma^2 E Var; L_eta at rho* is ell + (1 - eta) gamma^2 E Var.
    """
    k_draw, k_rho = jax.random.split(key)
    point, etas = draw(mdp, k_draw), jnp.linspace(0, 1, 5)
    V, log_pi, lam = point.V, point.log_pi, point.lam
    best = exact.delta_bar(mdp, V, log_pi, lam)
    rho = best + jax.random.normal(k_rho, best.shape)
    excess = jnp.sum(mdp.mu[:, None] * mdp.pi_b * (rho - best) ** 2)

    t = transitions(mdp)
    surrogate = equations.ell(exact.delta(mdp, V, log_pi, lam), V[t.s], t.weight)
    trade_off = jax.vmap(lambda eta: exact.L_eta(mdp, V, log_pi, best, lam, eta))(etas)
    ell, variance = exact.ell(mdp, V, log_pi, lam), bootstrap_variance(mdp, V)
    return every(
        equal(exact.dual_loss(mdp, V, log_pi, best, lam), variance, 1e-10),
        equal(exact.dual_loss(mdp, V, log_pi, rho, lam), variance + excess, 1e-10),
        equal(surrogate, ell + variance, 1e-10),
        equal(trade_off, ell + (1 - etas) * variance, 1e-10),
    )


def counterexample() -> Claim:
    """The best dual that sees s alone leaves the variance over actions standing."""
    mdp = two_state(noise=0.2)
    point = draw(mdp, jax.random.key(1))
    over_actions = jnp.sum(mdp.pi_b * exact.delta_bar(mdp, *point.point, point.lam), axis=-1, keepdims=True)
    rho = jnp.broadcast_to(over_actions, mdp.R.shape)
    return equal(exact.dual_loss(mdp, *point.point, rho, point.lam), bootstrap_variance(mdp, point.V))


STATEMENT = Statement(
    name="variance_cancellation",
    says="at its optimum the dual term is gamma^2 E Var[V(s')], just what PCL's surrogate has too much",
    labels=("thm:variance_cancellation", "eq:one_step_trade_off"),
    check=check,
    without="a dual that sees the action: rho(s) leaves something uncancelled",
    counterexample=counterexample,
)
