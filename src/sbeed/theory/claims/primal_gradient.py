"""The theorem's primal gradient."""

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, central_differences, draw, equal, every
from sbeed.theory.enumerate import transitions
from sbeed.types import Array, Key


def theorem(mdp: FiniteMDP, V: Array, logits: Array, rho: Array, lam: Array, eta: Array) -> tuple[Array, Array]:
    """The two formulas of thm:gradient_estimator with V a table and pi a softmax of a table."""
    t = transitions(mdp)
    log_pi = jax.nn.log_softmax(logits)
    delta = exact.delta(mdp, V, log_pi, lam)
    v, rho_sa = V[t.s], rho[t.s, t.a]
    dV = jnp.eye(mdp.states)
    dlog_pi = jax.jacobian(jax.nn.log_softmax)(logits)[t.s, t.a].reshape(len(t.s), -1)
    g_V = equations.V_gradient(delta, v, rho_sa, dV[t.s], dV[t.s_next], gamma=mdp.gamma, eta=eta, weight=t.weight)
    g_pi = equations.pi_gradient(delta, v, rho_sa, dlog_pi, lam=lam, eta=eta, weight=t.weight)
    return g_V, g_pi.reshape(logits.shape)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """At the dual optimum: autodiff with rho held = through rho*(V, pi) = the theorem = central differences."""
    k_draw, k_eta = jax.random.split(key)
    point, eta = draw(mdp, k_draw), jax.random.uniform(k_eta)
    lam, V, logits = point.lam, point.V, point.logits

    def held(V: Array, logits: Array, rho: Array) -> Array:
        return exact.L_eta(mdp, V, jax.nn.log_softmax(logits), rho, lam, eta)

    def optimal_dual(V: Array, logits: Array) -> Array:
        return exact.delta_bar(mdp, V, jax.nn.log_softmax(logits), lam)

    def ell_bar(V: Array, logits: Array) -> Array:
        return held(V, logits, optimal_dual(V, logits))

    rho = optimal_dual(V, logits)
    formula = theorem(mdp, V, logits, rho, lam, eta)
    pairs = [
        (jax.grad(held, (0, 1))(V, logits, rho), 1e-10),
        (jax.grad(ell_bar, (0, 1))(V, logits), 1e-10),
        (
            (
                central_differences(lambda V: ell_bar(V, logits), V),
                central_differences(lambda logits: ell_bar(V, logits), logits),
            ),
            1e-6,
        ),
    ]
    return every(*(equal(g, f, tolerance) for gs, tolerance in pairs for g, f in zip(gs, formula)))


def counterexample() -> Claim:
    """Away from the dual optimum the implicit term does not vanish: let rho lag behind, as one that follows V would."""
    mdp = two_state(noise=0.5)
    point = draw(mdp, jax.random.key(1))

    def following(V: Array) -> Array:
        rho = exact.delta_bar(mdp, V, point.log_pi, point.lam) + 1.0
        return exact.L_eta(mdp, V, point.log_pi, rho, point.lam, 1.0)

    rho = exact.delta_bar(mdp, point.V, point.log_pi, point.lam) + 1.0
    formula, _ = theorem(mdp, point.V, point.logits, rho, point.lam, jnp.array(1.0))
    return equal(jax.grad(following)(point.V), formula)


STATEMENT = Statement(
    name="primal_gradient",
    says="at the dual optimum, autodiff of L_eta = the theorem = central differences, with rho held or following",
    labels=("thm:gradient_estimator", "eq:one_step_trade_off"),
    check=check,
    without="the dual optimum: elsewhere how rho moves with V counts",
    counterexample=counterexample,
)
