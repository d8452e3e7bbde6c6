"""Statistical error and the decomposition of the whole error: hand numbers and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import FiniteMDP, equal_actions, finite_mdp, garnet
from sbeed.theory import exact
from sbeed.theory.claims import error_decomposition, statistical_error
from sbeed.theory.operators import Optimum, soft_optimum, state_norm


def test_rate_of_a_power_law():
    T = jnp.array([1e4, 1e5, 1e6])
    found = statistical_error.rate(T, jnp.array([[1.0], [2.0], [5.0]]) * T**-0.5)
    assert found.slope == pytest.approx(-0.5)
    assert found.half_width == pytest.approx(0.0, abs=1e-12)
    # Slopes -1 and 0 on two paths: mean -1/2, standard deviation 1/sqrt 2, half width 1.96 / 2.
    found = statistical_error.rate(T, jnp.stack([T**-1, T**0]))
    assert found.slope == pytest.approx(-0.5)
    assert found.half_width == pytest.approx(0.98)


def test_theorem_bound_by_hand():
    # Two states, two actions that do the same: the chain's rows are (.9, .1) and (.2, .8), alpha = .7,
    # b = -log .7 = .356675, beta_bar = 1 / .7.
    # C_R = 1, gamma = .5, lam = 1, C_pi = log 2: C = 2 / .5 + log 2 = 4.693147, C_2 = 1 / (128 C^2) = 3.547004e-4.
    # D_V = 2, D_pi = 4 - 2, D_nu = 4, D = 8: log C_1 = 3 + log 45 + 8 log(768 e C^2) = 92.694635.
    # log C_1 C_2^4 = 92.694635 + 4 log 3.547004e-4 = 60.917686, above log beta_bar.
    # M at T = 10^6: 4 * 13.815511 + 1 - log .05 + 60.917686 = 120.175461; M / b = 336.932726.
    # 2 sqrt(120.175461 * 336.932726 / (3.547004e-4 * 10^6)) = 21.36873
    chain = [[0.9, 0.1], [0.2, 0.8]]
    mdp = finite_mdp(np.stack([chain, chain], axis=1), [[1.0, 1.0], [-1.0, -1.0]], gamma=0.5)
    assert statistical_error.theorem_bound(mdp, 1.0, jnp.array(1e6)) == pytest.approx(21.36873, rel=1e-6)


def test_E12_error_of_V_is_first_order_and_the_loss_second_order():
    # A model off by h, as T samples leave it with h ~ T^-1/2: V is off by O(h), the loss at its solution by O(h^2).
    # So T^-1/2 is the rate of the error of V, and eps_stat, which the theorem bounds by T^-1/2, falls as 1/T.
    mdp, lam = jax.jit(garnet)(jax.random.key(0)), 0.2
    optimum = soft_optimum(mdp, lam)

    @jax.jit
    def errors(h: float) -> tuple[jax.Array, jax.Array]:
        off = FiniteMDP((1 - h) * mdp.P + h / mdp.states, mdp.R, mdp.mu, mdp.pi_b, mdp.gamma)
        found = soft_optimum(off, lam)
        return jnp.abs(found.V - optimum.V).max(), exact.ell(mdp, found.V, found.log_pi, lam)

    (V_coarse, loss_coarse), (V_fine, loss_fine) = errors(1e-3), errors(1e-4)
    assert np.log10(V_coarse / V_fine) == pytest.approx(1, abs=0.01)
    assert np.log10(loss_coarse / loss_fine) == pytest.approx(2, abs=0.02)


def test_E9_lam_times_C_pi_tends_to_the_action_gap():
    # One state, rewards 1 and 0, gamma .5: V* = 2, Q* = (2, 1), gap 1. pi*_lam(worse) = 1 / (1 + exp(1 / lam)), so
    # lam C_pi = lam log(1 + exp(1 / lam)): log(1 + e) = 1.3133 at lam = 1, and 1 + e^-100/100 at lam = .01, not O(lam).
    mdp = finite_mdp(np.ones((1, 2, 1)), [[1.0, 0.0]], gamma=0.5)
    assert error_decomposition.action_gap(mdp) == pytest.approx(1.0)
    assert error_decomposition.C_pi(mdp, 1.0) == pytest.approx(np.log1p(np.e))
    assert 0.01 * error_decomposition.C_pi(mdp, 0.01) == pytest.approx(1.0)
    assert bool(error_decomposition.action_gap_limit(mdp).holds)


def test_E9_the_appendix_drops_a_factor_from_the_optimisation_error():
    # Equal actions, gamma .3, lam .5, no approximation or sampling error: V^_w* = V*_lam, and e = |V*_lam - V*| =
    # lam log 2. Stop where |V^N - V*| = 20 e: 400 e^2 against the appendix's
    # 16 lam^2 C_pi^2 + (2 gamma^2 + 2) (gamma / (1 - gamma))^2 e^2 + (20 - 1)^2 e^2 = (16 + .4004 + 361) e^2.
    mdp, lam = equal_actions(), 0.5
    V = soft_optimum(mdp, lam).V
    e = state_norm(mdp, V)
    assert e == pytest.approx(lam * np.log(2))
    reached = 20 * V
    error, optimisation = state_norm(mdp, reached) ** 2, state_norm(mdp, reached - V) ** 2
    smoothing = 16 * lam**2 * error_decomposition.C_pi(mdp, lam) ** 2 + 2.18 * (0.3 / 0.7) ** 2 * e**2
    assert error == pytest.approx(float(400 * e**2))
    assert smoothing + optimisation == pytest.approx(float(377.4004 * e**2), rel=1e-6)
    assert error > smoothing + optimisation
    assert error < smoothing + 2 * optimisation


def test_parametric_loss_with_a_full_dual_is_ell():
    mdp, lam = jax.jit(garnet)(jax.random.key(0)), jnp.asarray(0.3)
    features = error_decomposition.random_classes(mdp, jax.random.key(1))
    w = jax.random.normal(jax.random.key(2), (10,))
    z = features(w)
    full = features._replace(nu=jnp.eye(mdp.pi_b.size).reshape(*mdp.pi_b.shape, -1))
    ell = exact.ell(mdp, z.V, z.log_pi, lam)
    assert error_decomposition.parametric_loss(mdp, full, lam)(w) == pytest.approx(float(ell))
    assert error_decomposition.parametric_loss(mdp, features, lam)(w) < ell
    value, slope = error_decomposition.saddle_value(mdp, features, w, lam)
    assert value == pytest.approx(float(error_decomposition.parametric_loss(mdp, features, lam)(w)))
    np.testing.assert_allclose(slope, 0, atol=1e-12)


def test_nearest_is_exact_when_the_class_holds_the_target():
    mdp = jax.jit(garnet)(jax.random.key(0))
    classes = error_decomposition.random_classes(mdp, jax.random.key(1))
    w = jax.random.normal(jax.random.key(2), (10,))
    z = classes(w)
    np.testing.assert_allclose(error_decomposition.nearest(classes, Optimum(z.V, z.log_pi)), w, rtol=1e-9)
