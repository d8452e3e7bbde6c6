"""Duals with parameters: hand numbers, and what each class is not the gradient of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import finite_mdp
from sbeed.theory.claims import following_dual, parametric_dual
from sbeed.theory.claims.parametric_dual import ONE_FEATURE, Problem, noisy_problem
from sbeed.theory.parametric import DualClass, following, nu_moves_rho, profile, table

# As in test_saddle_point: state 0 pays 1 and goes to 0 or 1 with a coin, the data are in state 0, one action, gamma .5.
COIN = finite_mdp([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], mu=[1.0, 0.0], gamma=0.5)
NO_BASE = jnp.zeros((2, 2))


def of_coin(eta):
    return Problem(COIN, jnp.eye(2), jnp.ones((2, 1, 1)), 1.0, eta), jnp.array([1.0, 4.0, 0.0])


@pytest.mark.parametrize(
    ("eta", "follows", "expected"),
    [
        # V = (1, 4): delta = 1 + 1/2 or 1 + 2, rho* = 2.25, ell = 1.25^2 = 1.5625, Var = .75^2 = .5625. With ridge 1
        # u is half of its goal, and half of the goal's square is missed: 2.25^2 / 2 = 2.53125, 1.25^2 / 2 = .78125.
        (1.0, 0.0, 1.5625 - 2.53125),
        (1.0, 1.0, 1.5625 - 0.78125),
        (0.5, 0.0, 1.5625 + 0.5 * 0.5625 - 0.5 * 2.53125),
        (0.5, 1.0, 0.5 * (1.5625 + 0.5625) + 0.5 * 0.78125),
    ],
)
def test_maxima_by_hand(eta, follows, expected):
    problem, w = of_coin(eta)
    dual = DualClass(jnp.ones((2, 1, 1)), 1.0)
    np.testing.assert_allclose(profile(problem, dual, w, jnp.zeros((2, 1)), follows), expected, rtol=1e-12)


def test_the_theorem_by_hand():
    # -2 E[delta - V] = -2.5 at V(0). Backward, 2 gamma = 1 and either state half the time: nu at eta 1, the error,
    # .5 or 2, at eta 0.
    for eta, backward in ((1.0, [0.5 * 1.25, 0.5 * 1.25]), (0.0, [0.5 * 0.5, 0.5 * 2])):
        problem, w = of_coin(eta)
        g = problem.theorem(w, jnp.full((2, 1), 1.25))
        np.testing.assert_allclose(g[:2], np.array([-2.5, 0]) + backward, rtol=1e-12)


def test_in_few_features_the_theorem_is_no_gradient_of_what_a_full_class_leaves():
    problem, w = noisy_problem()
    of_full = jax.jit(jax.grad(problem.maximised))(w)

    def theorem(dual):
        return problem.theorem(w, dual.psi @ dual.fitted(problem.mdp, problem.delta_bar(w)) - problem.v(w))

    np.testing.assert_allclose(theorem(table(problem.mdp)), of_full, rtol=1e-10)
    assert jnp.abs(theorem(DualClass(ONE_FEATURE, 0.0)) - of_full).max() > 0.1


def test_without_the_penalty_a_ridge_s_rho_is_no_maximum():
    claim = jax.jit(parametric_dual.counterexample)()
    assert claim.lhs > 0.05


def test_a_following_class_adds_what_nu_leaves_along_V():
    problem, w = noisy_problem()
    found = following(problem, DualClass(ONE_FEATURE, 0.0), w)
    left = problem.delta_bar(w) - problem.v(w) - found.nu
    # phi = (1, 2), mu pi_b = 1/4 everywhere: 2 E[left phi(s)].
    np.testing.assert_allclose(found.added[0], 2 * (left[0].sum() + 2 * left[1].sum()) / 4, rtol=1e-12)
    np.testing.assert_array_equal(found.added[1:], 0.0)
    np.testing.assert_array_equal(nu_moves_rho(problem._replace(eta=0.0), w, found.nu), 0.0)
    claim = jax.jit(following_dual.counterexample)()
    assert claim.lhs > 0.05


@pytest.mark.parametrize(("follows", "curvature"), [(0.0, 0.01 - 0.81 * 11 / 12), (1.0, 0.01 / 12)])
def test_a_rho_of_its_own_leaves_V_a_way_down_without_end(follows, curvature):
    # V = c everywhere: ell is (1 - gamma)^2 c^2 and what is not, and rho* is gamma c. The feature is (1, 0; 1, -1), so
    # a constant has E[psi]^2 / E[psi^2] = (1/4)^2 / (3/4) = 1/12 of its square in the class: 11/12 of gamma^2 c^2 are
    # missed, or of (1 - gamma)^2 c^2 where rho follows V.
    problem, w = noisy_problem()
    flat = problem._replace(phi=jnp.ones((2, 1)))

    def maximum(c):
        return profile(flat, DualClass(ONE_FEATURE, 0.0), w.at[0].set(c), NO_BASE, follows)

    # The second difference is exact: the maximum is quadratic in V.
    bend = (maximum(1e3) - 2 * maximum(0.0) + maximum(-1e3)) / 2e6
    np.testing.assert_allclose(bend, curvature, rtol=1e-6)
