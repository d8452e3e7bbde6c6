"""Losses other than the square: conjugates by hand, the bounded dual, and what sampling does without one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sbeed.envs.tabular import finite_mdp, garnet, two_state
from sbeed.theory import exact
from sbeed.theory.claims import convex_losses
from sbeed.theory.claims.convex_losses import LOG_COSH, embedded, flat, huber
from sbeed.theory.operators import soft_optimum
from sbeed.theory.report import QUICK_COMPILE
from sbeed.theory.solve import newton, origin, residual_norm, scaled

quick = functools.partial(jax.jit, compiler_options=QUICK_COMPILE)

# As in test_saddle_point: state 0 pays 1 and goes to 0 or 1 with a coin, the data are in state 0, one action, gamma .5.
COIN = finite_mdp([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], mu=[1.0, 0.0], gamma=0.5)


@pytest.mark.parametrize(
    ("loss", "phi", "nu"),
    [
        (huber(1.0), 3.0, 1.0),  # 2 * 1 * 2 - 1
        (huber(3.0), 4.0, 2.0),  # the square
        (flat(0.5), 2.25, 1.5),  # 1.5^2, and 2 * 1.5 * 2 - 1.5^2 - 2 * .5 * 1.5
        (LOG_COSH, 2 * np.log(np.cosh(2)), np.tanh(2)),
    ],
)
def test_the_embedding_by_hand(loss, phi, nu):
    # V = (0, 4): delta is 1 or 3, so e = 2.
    V, logits = jnp.array([0.0, 4.0]), jnp.zeros((2, 1))
    e = convex_losses.error(COIN, V, logits, 1.0)[0, 0]
    np.testing.assert_allclose([loss.phi(e), loss.best(e)], [phi, nu], rtol=1e-12)
    np.testing.assert_allclose(embedded(COIN, loss, V, logits, jnp.full((2, 1), nu), 1.0), phi, rtol=1e-12)
    # Any other nu in the dual's range gives less.
    for other in (0.9 * nu, -nu):
        assert embedded(COIN, loss, V, logits, jnp.full((2, 1), other), 1.0) < phi


def test_a_dual_that_is_not_bounded_gives_the_square():
    V, logits = jnp.array([0.0, 4.0]), jnp.zeros((2, 1))
    assert embedded(COIN, huber(1.0), V, logits, jnp.full((2, 1), 2.0), 1.0) == 4.0


@pytest.mark.parametrize("loss", [huber(0.5), flat(0.5), LOG_COSH], ids=["huber", "flat", "log_cosh"])
def test_phi_is_the_conjugate_of_psi(loss):
    # The dual's range is where the best nu of some x lies.
    x = jnp.linspace(-4, 4, 17)
    nu = np.linspace(*loss.best(jnp.array([-4.0, 4.0])), 200_001)
    attained = np.max(2 * np.outer(x, nu) - np.asarray(loss.psi(nu)), axis=-1)
    np.testing.assert_allclose(attained, loss.phi(x), atol=1e-8)
    np.testing.assert_allclose(jax.vmap(jax.grad(loss.phi))(x) / 2, loss.best(x), atol=1e-12)


def mean(mdp, x):
    """Over s, a and s'.   x: [S, A, S]"""
    return jnp.sum(mdp.mu[:, None, None] * mdp.pi_b[..., None] * mdp.P * x)


def sampled(mdp, loss, V, logits, lam):
    """E[phi(delta - V)], s' outside: no dual."""
    delta = exact.delta(mdp, V, jax.nn.log_softmax(logits), lam).reshape(mdp.P.shape)
    return mean(mdp, loss.phi(delta - V[:, None, None]))


def with_rho(mdp, loss, V, logits, lam):
    """E[phi(delta - V)] - min_rho E[phi(delta - rho)]: for the square the paper's L_1 at its dual's optimum."""
    delta = exact.delta(mdp, V, jax.nn.log_softmax(logits), lam).reshape(mdp.P.shape)
    held = jax.lax.stop_gradient(delta)

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        below = jnp.sum(mdp.P * loss.best(held - middle[..., None]), -1) > 0
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    rho = jax.lax.fori_loop(0, 60, halve, (held.min(-1), held.max(-1)))[0]
    # With rho held the slope is right, as it is the best; Newton's step of rho makes the curvature right too.
    bend = jax.vmap(jax.grad(loss.best))((held - rho[..., None]).ravel()).reshape(held.shape)
    rho += jnp.sum(mdp.P * loss.best(delta - rho[..., None]), -1) / jnp.sum(mdp.P * bend, -1)
    return mean(mdp, loss.phi(delta - V[:, None, None])) - mean(mdp, loss.phi(delta - rho[..., None]))


@pytest.mark.parametrize(
    ("objective", "loss", "noise", "error"),
    [
        (sampled, huber(0.3), 0.0, 0.0),
        (sampled, huber(0.3), 0.5, 0.7545),  # as PCL's, in test_first_action_credit
        (with_rho, huber(1e3), 0.5, 0.0),
        (with_rho, huber(0.3), 0.5, 0.1248),
    ],
)
def test_where_noise_leads_a_loss_that_does_not_have_nu(objective, loss, noise, error):
    mdp, lam = two_state(noise=noise), 0.1
    V, log_pi = soft_optimum(mdp, lam)
    start, tables = ravel_pytree((V, lam * log_pi))

    @quick
    def found():
        def value(w):
            V, scaled_logits = tables(w)
            return objective(mdp, loss, V, scaled_logits / lam, lam)

        w = newton(value, start, iterations=60)
        return tables(w)[0], jax.grad(value)(w)

    end, slope = found()
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)
    np.testing.assert_allclose(jnp.abs(end - V).max(), error, atol=1e-4)


def test_the_gradient_holds_nu_whatever_the_classes():
    """V and pi in few features, nu = psi^T u of least E[psi(nu)] with a ridge: too few features to be exact."""
    mdp, lam, ridge = garnet(jax.random.key(0), 4, 2), 0.5, 0.1
    k_V, k_pi, k_nu, k_w = jax.random.split(jax.random.key(1), 4)
    of_V, of_pi = jax.random.normal(k_V, (4, 2)), jax.random.normal(k_pi, (4, 2, 3))
    of_nu, w = jax.random.normal(k_nu, (4, 2, 2)), jax.random.normal(k_w, (5,))

    def primal(w):
        return of_V @ w[:2], jnp.tanh(of_pi @ w[2:])

    def value(w, u):
        return embedded(mdp, LOG_COSH, *primal(w), of_nu @ u, lam) - ridge * u @ u

    @quick
    def at(w):
        """The maximum over u, its gradient with nu held, and how far nu is from phi'(e) / 2."""
        u = newton(lambda u: -value(w, u), jnp.zeros(2), iterations=20)
        exact_dual = LOG_COSH.best(convex_losses.error(mdp, *primal(w), lam))
        return *jax.value_and_grad(value)(w, u), jnp.abs(of_nu @ u - exact_dual).max()

    _, held, missed = at(w)
    assert missed > 0.1
    steps = 1e-5 * np.eye(5)
    np.testing.assert_allclose([(at(w + d)[0] - at(w - d)[0]) / 2e-5 for d in steps], held, atol=1e-7)


def test_algorithm_1_with_a_bounded_dual_ends_at_the_same_point():
    mdp, lam, loss = garnet(jax.random.key(0)), 0.1, huber(0.3)

    @jax.jit
    def run():
        prox = residual_norm(mdp, lam)

        def step(_, z):
            nu = loss.best(convex_losses.error(mdp, z.V, z.logits, lam))
            g = jax.grad(lambda z: embedded(mdp, loss, z.V, z.logits, nu, lam))(z)
            return prox(z, scaled(0.4, g))

        start = origin(mdp)
        at_first = jnp.abs(convex_losses.error(mdp, start.V, start.logits, lam)).max()
        return at_first, jax.lax.fori_loop(0, 2_000, step, start).V, soft_optimum(mdp, lam).V

    at_first, found, optimum = run()
    assert at_first > 2 * 0.3  # the bound was felt
    np.testing.assert_allclose(found, optimum, rtol=0, atol=1e-8)
