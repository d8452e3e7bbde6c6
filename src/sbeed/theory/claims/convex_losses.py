"""The dual embedding of convex losses other than the square: Huber's, and the logarithm of cosh."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import xlog1py

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import ROUNDING, Claim, Statement, at_most, central_differences, draw, equal, every
from sbeed.theory.claims.conjugate_form import data_mean
from sbeed.theory.enumerate import transitions
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar


class Loss(NamedTuple):
    """phi(x) = max_nu 2 nu x - psi(nu), convex and differentiable. In this scale, the paper's, the square has nu^2."""

    phi: Callable[[Array], Array]
    psi: Callable[[Array], Array]  # defined on the values of `best`
    best: Callable[[Array], Array]  # the nu that attains the maximum: phi'(x) / 2


def huber(c: Scalar) -> Loss:
    """x^2 for |x| <= c, 2 c |x| - c^2 beyond. Its psi is the square's, and its dual is bounded to [-c, c]."""
    return Loss(
        lambda x: jnp.where(jnp.abs(x) <= c, x**2, 2 * c * jnp.abs(x) - c**2), jnp.square, lambda x: jnp.clip(x, -c, c)
    )


def flat(width: Scalar) -> Loss:
    """(|x| - width)^2 for |x| > width, and 0 up to there: convex, with no slope where the square has some."""
    return Loss(
        lambda x: jnp.maximum(jnp.abs(x) - width, 0) ** 2,
        lambda nu: nu**2 + 2 * width * jnp.abs(nu),
        lambda x: jnp.sign(x) * jnp.maximum(jnp.abs(x) - width, 0),
    )


# phi(x) = 2 log cosh x. Its dual lies in (-1, 1).
LOG_COSH = Loss(
    lambda x: 2 * jnp.log1p(2 * jnp.sinh(x / 2) ** 2),
    lambda nu: xlog1py(1 + nu, nu) + xlog1py(1 - nu, -nu),
    jnp.tanh,
)


def either(first: Array, one: Loss, other: Loss) -> Loss:
    """`one` where `first`, or else `other`: losses as a batch, compiled once."""
    return Loss(*(lambda x, f=f, g=g: jnp.where(first, f(x), g(x)) for f, g in zip(one, other)))


def error(mdp: FiniteMDP, V: Array, logits: Array, lam: Scalar) -> Array:
    """E[delta | s, a] - V(s)   [S, A]"""
    return exact.delta_bar(mdp, V, jax.nn.log_softmax(logits), lam) - V[:, None]


def mean_loss(mdp: FiniteMDP, loss: Loss, V: Array, logits: Array, lam: Scalar) -> Array:
    """E[phi(E[delta | s, a] - V)]"""
    return data_mean(mdp, loss.phi(error(mdp, V, logits, lam)))


def embedded(mdp: FiniteMDP, loss: Loss, V: Array, logits: Array, nu: Array, lam: Scalar) -> Array:
    """E[2 nu (delta - V) - psi(nu)]. It is linear in delta, so a sampled s' leaves it unbiased.   nu: [S, A]"""
    t = transitions(mdp)
    delta, nu = exact.delta(mdp, V, jax.nn.log_softmax(logits), lam), nu[t.s, t.a]
    return equations.mean(2 * nu * (delta - V[t.s]) - loss.psi(nu), t.weight)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Let e = E[delta|s,a] - V. For Huber's loss, for the square (Huber's with a large c) and for log cosh:

    max_nu E[2 nu (delta - V) - psi(nu)] = E[phi(e)], attained at nu* = phi'(e) / 2. The gradient in V and pi of the
    right-hand side is that of the left-hand side with nu* held. As for the square, its size bounds E|nu*| from above by
    (|g_V|_1 + |g_pi|_1 / lam) / (2 (1 - gamma)), so that it vanishes at (V*_lam, pi*_lam) alone: docs/proofs.md.
    """
    k_one, k_two, k_c = jax.random.split(key, 3)
    one, two = draw(mdp, k_one), draw(mdp, k_two)
    lam, tables = one.lam, (one.V, one.logits)
    V_opt, logits_opt = soft_optimum(mdp, lam)

    def of_loss(loss: Loss) -> Claim:
        def value(V: Array, logits: Array) -> Array:
            return mean_loss(mdp, loss, V, logits, lam)

        def held(V: Array, logits: Array, nu: Array) -> Array:
            return embedded(mdp, loss, V, logits, nu, lam)

        best, other = (loss.best(error(mdp, x.V, x.logits, lam)) for x in (one, two))
        gradients = jax.grad(value, (0, 1))(*tables)
        of_V = central_differences(lambda V: value(V, one.logits), one.V)
        of_pi = central_differences(lambda logits: value(one.V, logits), one.logits)
        slope = jnp.abs(gradients[0]).sum() + jnp.abs(gradients[1]).sum() / lam
        return every(
            equal(held(*tables, best), value(*tables), 1e-10),
            at_most(held(*tables, other), value(*tables)),
            *(equal(g, h, 1e-10) for g, h in zip(jax.grad(held, (0, 1))(*tables, best), gradients)),
            *(equal(g, h, 1e-6) for g, h in zip((of_V, of_pi), gradients)),
            equal(value(V_opt, logits_opt), 0.0),
            *(equal(g, 0.0) for g in jax.grad(value, (0, 1))(V_opt, logits_opt)),
            at_most(data_mean(mdp, jnp.abs(best)), slope / (2 * (1 - mdp.gamma))),
        )

    c = jnp.exp(jax.random.uniform(k_c, minval=-1.0, maxval=1.0))
    cs, is_huber = jnp.array([c, 1e3, c]), jnp.array([True, True, False])
    claims = jax.vmap(lambda c, first: of_loss(either(first, huber(c), LOG_COSH)))(cs, is_huber)
    return every(*(jax.tree.map(lambda x, i=i: x[i], claims) for i in range(3)))


def counterexample() -> Claim:
    """A loss without slope for |e| <= .1 has none at (V*_lam + .5, pi*_lam), whose errors are -.05."""
    mdp, lam, loss = two_state(noise=0.5), 0.5, flat(0.1)
    V, log_pi = soft_optimum(mdp, lam)
    gradients = jax.grad(lambda V, logits: mean_loss(mdp, loss, V, logits, lam), (0, 1))(V + 0.5, log_pi)
    slope = sum(jnp.abs(g).sum() for g in gradients)
    return at_most(0.5, ROUNDING + slope)


STATEMENT = Statement(
    name="convex_losses",
    says=(
        "max_nu E[2 nu (delta - V) - psi(nu)] = E[phi(e)] for Huber's loss (nu bounded), log cosh and the square; its "
        "gradient is that with nu* = phi'(e) / 2 held, and vanishes at (V*_lam, pi*_lam) alone"
    ),
    labels=("eq:dual_simplified_smooth_bellman", "eq:simplified_smooth_bellman_loss", "eq:mean_square_bellman_opt"),
    check=check,
    without="a slope at every error but 0: a loss that is flat up to .1 has no slope at other pairs either",
    counterexample=counterexample,
    states=3,
    actions=2,
)
