"""The saddle point's objective as a conjugate."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, equal, every
from sbeed.theory.operators import state_norm
from sbeed.types import Array, Key


def data_mean(mdp: FiniteMDP, f: Array) -> Array:
    """E_{s,a}[f(s, a)] under mu pi_b.   [S, A] -> scalar"""
    return jnp.sum(mdp.mu[:, None] * mdp.pi_b * f)


def bulge(f: Callable[[Array], Array], x: Array, y: Array) -> Array:
    """f at the midpoint minus the mean of f at the ends: positive where f is not convex."""
    at_x, at_middle, at_y = jax.vmap(f)(jnp.stack([x, (x + y) / 2, y]))
    return at_middle - (at_x + at_y) / 2


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The second-order identities that say which way L bends, and so who maximises and who minimises it:

    nu: L(nu) = ell - E[(nu - nu*)^2], nu* = E[delta|s,a] - V: concave, with maximum ell at nu*.
    V:  L is affine; ell bends upwards by ||V1 - V2||^2_{mu pi_b} / 4 at the midpoint: both convex.
    pi: L bends *down* by lam E[nu log(1 + x)] at the midpoint, x = (p1 - p2)^2 / (4 p1 p2): convex where nu >= 0, and
        concave at nu = -1, bending up by lam E[log(1 + x)] >= lam E[x / (1 + x)] = lam E[((p1 - p2) / (p1 + p2))^2].
    """
    k_one, k_two, k_nu = jax.random.split(key, 3)
    one, two = draw(mdp, k_one), draw(mdp, k_two)
    lam, V, log_pi = one.lam, one.V, one.log_pi
    nu = jax.random.normal(k_nu, mdp.R.shape)
    nus = jnp.stack([nu, -jnp.ones_like(nu)])
    best = exact.delta_bar(mdp, V, log_pi, lam) - V[:, None]
    ell = exact.ell(mdp, V, log_pi, lam)

    def L_of_pi(pi: Array) -> Array:
        """At the nu drawn and at nu = -1."""
        return jax.vmap(lambda nu: exact.L(mdp, V, jnp.log(pi), nu, lam))(nus)

    p1, p2 = jnp.exp(one.log_pi), jnp.exp(two.log_pi)
    log_1_x = jnp.log1p((p1 - p2) ** 2 / (4 * p1 * p2))
    dips = lam * jax.vmap(lambda nu: data_mean(mdp, nu * log_1_x))(nus)
    shown = lam * data_mean(mdp, ((p1 - p2) / (p1 + p2)) ** 2)
    return every(
        equal(exact.L(mdp, V, log_pi, best, lam), ell, 1e-10),
        equal(exact.L(mdp, V, log_pi, nu, lam), ell - data_mean(mdp, (nu - best) ** 2), 1e-10),
        equal(bulge(lambda V: exact.L(mdp, V, log_pi, nu, lam), one.V, two.V), 0.0, 1e-10),
        equal(
            bulge(lambda V: exact.ell(mdp, V, log_pi, lam), one.V, two.V),
            -(state_norm(mdp, one.V - two.V) ** 2) / 4,
            1e-10,
        ),
        equal(bulge(L_of_pi, p1, p2), -dips, 1e-10),
        at_most(shown, -dips[1]),  # so the bulge at -1 is not merely rounding
    )


def counterexample() -> Claim:
    """Midpoint convexity in pi fails at nu = -1, a dual that SBEED meets wherever V is too high."""
    mdp = two_state(noise=0.2)
    one, two = jnp.array([[0.9, 0.1], [0.5, 0.5]]), jnp.array([[0.1, 0.9], [0.5, 0.5]])
    V, nu = jnp.zeros(mdp.states), -jnp.ones(mdp.R.shape)
    return at_most(bulge(lambda pi: exact.L(mdp, V, jnp.log(pi), nu, 0.5), one, two), 1e-9)


STATEMENT = Statement(
    name="conjugate_form",
    says="max_nu L = ell at nu* = E[delta|s,a] - V; L is convex in V, concave in nu, and not convex in pi",
    labels=("eq:dual_simplified_smooth_bellman", "eq:simplified_smooth_bellman_loss"),
    check=check,
    without="nu >= 0: where the dual is negative L is not convex in pi",
    counterexample=counterexample,
)
