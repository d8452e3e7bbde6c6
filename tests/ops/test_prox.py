"""Each prox-mapping minimises <w, g> + D(w, z), and the KL forms agree with one another where they meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.ops import prox
from sbeed.ops.linalg import conjugate_gradient, ridge_solve


def _kl(log_p, log_q):
    return jnp.sum(jnp.exp(log_p) * (log_p - log_q), axis=-1)


def test_euclidean_is_stationary():
    z, g = jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0])
    w = prox.euclidean(z, g)
    np.testing.assert_allclose(jax.grad(lambda w: w @ g + 0.5 * jnp.sum((w - z) ** 2))(w), 0, atol=1e-15)


def test_kl_simplex_by_hand():
    # z = (1/2, 1/2), g = (log 3, 0): weights 1/6 and 1/2, so p = (1/4, 3/4)
    p = jnp.exp(prox.kl_simplex(jnp.log(jnp.array([0.5, 0.5])), jnp.array([jnp.log(3.0), 0.0])))
    np.testing.assert_allclose(p, [0.25, 0.75], rtol=1e-14)


def test_kl_simplex_beats_every_other_distribution():
    keys = jax.random.split(jax.random.key(0), 3)
    log_z = jax.nn.log_softmax(jax.random.normal(keys[0], (5,)))
    g = jax.random.normal(keys[1], (5,))
    objective = lambda log_p: jnp.exp(log_p) @ g + _kl(log_p, log_z)
    others = jax.nn.log_softmax(3 * jax.random.normal(keys[2], (1000, 5)))
    assert objective(prox.kl_simplex(log_z, g)) < jax.vmap(objective)(others).min()


def _gaussian_kl(W, log_std, W_z, log_std_z, phi):
    """E_s KL(N(W_z phi, std_z) || N(W phi, std)), the textbook formula."""
    gap = (phi @ (W - W_z).T) ** 2
    ratio = (jnp.exp(2 * log_std_z) + gap) / jnp.exp(2 * log_std)
    return jnp.mean(jnp.sum(log_std - log_std_z + 0.5 * ratio - 0.5, axis=-1))


@pytest.fixture
def gaussian():
    keys = jax.random.split(jax.random.key(1), 4)
    phi = jax.random.normal(keys[0], (200, 6))
    W, log_std = jax.random.normal(keys[1], (2, 6)), jnp.array([-0.5, 0.3])
    return phi, W, log_std, prox.GaussianStep(jax.random.normal(keys[2], (2, 6)), jax.random.normal(keys[3], (2,)))


def test_gaussian_natural_gradient_is_the_inverse_fisher(gaussian):
    phi, W, log_std, g = gaussian
    kl = lambda x: _gaussian_kl(x[:12].reshape(2, 6), x[12:], W, log_std, phi)
    fisher = jax.jit(jax.hessian(kl))(jnp.concatenate([W.ravel(), log_std]))
    step = prox.gaussian_natural_gradient(phi.T @ phi / len(phi), log_std, g)
    flat = jnp.concatenate([step.weights.ravel(), step.log_std])
    np.testing.assert_allclose(fisher @ flat, jnp.concatenate([g.weights.ravel(), g.log_std]), rtol=1e-9, atol=1e-9)


def test_gaussian_natural_gradient_is_the_exact_prox_in_the_weights(gaussian):
    phi, W, log_std, g = gaussian
    step = prox.gaussian_natural_gradient(phi.T @ phi / len(phi), log_std, g)
    objective = lambda V: jnp.sum(V * g.weights) + _gaussian_kl(V, log_std, W, log_std, phi)
    np.testing.assert_allclose(jax.grad(objective)(W - step.weights), 0, atol=1e-12)


def test_conjugate_gradient_agrees_with_the_closed_form(gaussian):
    phi, W, log_std, g = gaussian
    kl = lambda x: _gaussian_kl(x[:12].reshape(2, 6), x[12:], W, log_std, phi)
    z, flat_g = jnp.concatenate([W.ravel(), log_std]), jnp.concatenate([g.weights.ravel(), g.log_std])
    solution = prox.natural_gradient_by_products(kl, z, flat_g, iterations=14)
    step = prox.gaussian_natural_gradient(phi.T @ phi / len(phi), log_std, g)
    assert solution.relative_residual < 1e-8
    np.testing.assert_allclose(solution.x[:12].reshape(2, 6), step.weights, rtol=1e-7)
    np.testing.assert_allclose(solution.x[12:], step.log_std, rtol=1e-7)


def test_softmax_natural_gradient_is_multiplicative_weights():
    # In logits F = diag(pi) - pi pi^T, and g_logits = F g_p, so F^+ g_logits = g_p up to a constant.
    logits, g_p = jnp.array([0.3, -1.0, 0.7]), 0.1 * jnp.array([1.0, -2.0, 0.5])
    log_z = jax.nn.log_softmax(logits)
    kl = lambda w: _kl(log_z, jax.nn.log_softmax(w))
    g = jax.grad(lambda w: jax.nn.softmax(w) @ g_p)(logits)
    step = prox.natural_gradient_by_products(kl, logits, g, iterations=10).x
    np.testing.assert_allclose(jax.nn.log_softmax(logits - step), prox.kl_simplex(log_z, g_p), rtol=1e-9)


def test_a_natural_gradient_that_was_not_found_falls_back_to_the_gradient():
    scales, g = jnp.logspace(0, 8, 50), jnp.ones(50)
    kl = lambda w: 0.5 * jnp.sum(scales * w**2)
    guarded = prox.natural_gradient_by_products(kl, jnp.zeros(50), g, iterations=5)
    np.testing.assert_allclose(guarded.x / guarded.x[0], g)  # along g
    np.testing.assert_allclose(guarded.x[0], 50 / scales.sum(), rtol=1e-10)  # <g, g> / <g, F g>
    free = prox.natural_gradient_by_products(kl, jnp.zeros(50), g, iterations=5, tolerance=jnp.inf)
    model = lambda x: kl(x) - g @ x  # what the direction minimises; five steps do better than one, found or not
    assert model(free.x) < model(guarded.x) < 0


def test_conjugate_gradient_reports_what_it_did_not_solve():
    A = jnp.diag(jnp.logspace(0, 8, 50))
    few = conjugate_gradient(lambda x: A @ x, jnp.ones(50), iterations=5)
    assert few.relative_residual > 0.1
    np.testing.assert_allclose(few.relative_residual, jnp.linalg.norm(A @ few.x - 1) / jnp.sqrt(50), rtol=1e-12)


def test_conjugate_gradient_survives_no_curvature():
    flat = conjugate_gradient(jnp.zeros_like, jnp.ones(3), iterations=5)
    np.testing.assert_array_equal(flat.x, 0)
    assert flat.relative_residual == 1
    nothing = conjugate_gradient(lambda x: x, jnp.zeros(3), iterations=5)
    assert nothing.relative_residual == 0


def test_conjugate_gradient_takes_damping():
    solution = conjugate_gradient(lambda x: 2 * x, jnp.array([3.0]), iterations=2, damping=1.0)
    np.testing.assert_allclose(solution.x, 1.0)  # (2 + 1) x = 3


def test_ridge_has_no_unit():
    gram, rhs = jnp.array([[2.0, 1.0], [1.0, 3.0]]), jnp.array([1.0, 0.0])
    np.testing.assert_allclose(ridge_solve(gram, rhs, 0.0), jnp.linalg.solve(gram, rhs), rtol=1e-12)
    np.testing.assert_allclose(ridge_solve(1e6 * gram, rhs, 0.1) * 1e6, ridge_solve(gram, rhs, 0.1), rtol=1e-12)


def test_capped_step_size_by_hand():
    # g^T F^-1 g = 8, kl_radius 1: cap sqrt(2 / 8) = 1/2
    g, direction = jnp.array([2.0, 0.0]), jnp.array([4.0, 9.0])
    assert prox.capped_step_size(g, direction, step_size=10.0, kl_radius=1.0) == 0.5
    assert prox.capped_step_size(g, direction, step_size=0.1, kl_radius=1.0) == 0.1
    assert prox.capped_step_size(g, direction, step_size=jnp.inf, kl_radius=1.0) == 0.5
    assert prox.capped_step_size(jnp.zeros(2), jnp.zeros(2), step_size=1.0, kl_radius=1.0) == 0


def test_line_search_takes_the_longest_allowed_step():
    kl = lambda w: 0.5 * jnp.sum(w**2)  # from z = 0
    z, step = jnp.zeros(1), jnp.array([-4.0])
    down = prox.kl_line_search(kl, lambda w: -w[0], z, step, kl_radius=0.5)
    np.testing.assert_allclose(down, [1.0])  # 4 and 2 leave the trust region, 1 is on its edge
    up = prox.kl_line_search(kl, lambda w: w[0], z, step, kl_radius=0.5)
    np.testing.assert_array_equal(up, z)  # every step raises the objective
