"""The KL prox and stationary points by hand."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import equal_actions, finite_mdp, two_state
from sbeed.ops import prox
from sbeed.theory import exact
from sbeed.theory.claims import natural_gradient, stationary_optimality
from sbeed.theory.operators import evaluate, soft_optimum


def test_kl_prox_by_hand():
    # z = (1/2, 1/2), g = (0, log 3): p ~ (1/2, 1/6), so p = (3/4, 1/4).
    log_p = prox.kl_simplex(jnp.log(jnp.full(2, 0.5)), jnp.array([0.0, jnp.log(3.0)]))
    np.testing.assert_allclose(jnp.exp(log_p), [0.75, 0.25], rtol=1e-12)


def test_natural_gradient_of_a_bandit_is_the_advantage():
    # One state, gamma = 1/2, R = (1, 0), pi uniform: V = (1/2) / (1 - 1/2) = 1, Q = R + V / 2, A = Q - V = (1/2, -1/2).
    mdp = finite_mdp(np.ones((1, 2, 1)), [[1.0, 0.0]], gamma=0.5)
    log_pi = jnp.full((1, 2), -jnp.log(2))
    np.testing.assert_allclose(natural_gradient.advantage(mdp, log_pi), [[0.5, -0.5]], rtol=1e-12)


def test_score_weight_is_the_advantage_only_at_its_own_value_without_entropy():
    # One state, gamma = 1/2, R = (1, 0), pi uniform, A = (1/2, -1/2) as above. V + 1 shifts the weight by
    # gamma - 1 = -1/2, and lam = 1/2 adds lam log 2.
    mdp = finite_mdp(np.ones((1, 2, 1)), [[1.0, 0.0]], gamma=0.5)
    log_pi = jnp.full((1, 2), -jnp.log(2))
    V = evaluate(mdp, jnp.exp(log_pi))
    weight = natural_gradient.mean_score_weight
    np.testing.assert_allclose(weight(mdp, V, log_pi, 0.0, 0.3), [[0.5, -0.5]], rtol=1e-12)
    np.testing.assert_allclose(weight(mdp, V + 1, log_pi, 0.0, 0.3), [[0.0, -1.0]], atol=1e-12)
    np.testing.assert_allclose(weight(mdp, V, log_pi, 0.5, 0.3), np.array([[0.5, -0.5]]) + np.log(2) / 2, rtol=1e-12)


def test_the_gradient_bound_is_tight():
    # One state, pi = pi_b uniform, V = 0, lam = 1/2: e = lam log 2 for both actions, so g_pi = 0,
    # g_V = 2 e (gamma - 1), and |g_V| / (2 (1 - gamma)) = e = E|e|.
    mdp, lam = equal_actions(gamma=0.3), 0.5
    g_V, g_pi = stationary_optimality.gradients(mdp, (jnp.zeros(1), jnp.zeros((1, 2))), lam)
    np.testing.assert_allclose(g_V, -1.4 * lam * np.log(2), rtol=1e-12)
    np.testing.assert_allclose(g_pi, 0.0, atol=1e-15)


def test_a_stationary_point_without_full_support_by_hand():
    # pi_b never takes action 1, which pays 1. Uniform pi and V = lam log 2 / (1 - gamma) = .5 * .693147 / .1 = 3.4657
    # have no loss and no slope; V*_lam = lam log(1 + e^(1 / lam)) / (1 - gamma) = 5 log(1 + e^2) = 10.6346.
    mdp = finite_mdp([[[1], [1]]], [[0.0, 1.0]], pi_b=[[1.0, 0.0]])
    V, logits = jnp.array([5 * np.log(2)]), jnp.zeros((1, 2))
    assert all(jnp.abs(g).max() < 1e-14 for g in stationary_optimality.gradients(mdp, (V, logits), 0.5))
    np.testing.assert_allclose(soft_optimum(mdp, 0.5).V, 5 * np.log(1 + np.e**2), rtol=1e-12)


def test_descent_ends_where_loss_and_slope_are_zero():
    @jax.jit
    def loss_and_slope():
        mdp, lam = two_state(noise=0.3), 0.1
        start = jnp.array([3.0, -3.0]), jnp.array([[0.0, 2.0], [-2.0, 1.0]])
        V, logits = stationary_optimality.descend(mdp, start, lam)
        loss = exact.ell(mdp, V, jax.nn.log_softmax(logits), lam)
        return loss, stationary_optimality.gradients(mdp, (V, logits), lam)

    loss, slope = loss_and_slope()
    assert loss < 1e-25
    assert all(jnp.abs(g).max() < 1e-12 for g in slope)
