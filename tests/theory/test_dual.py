"""The dual by hand, mixing by hand, and errata E1, E10, E11."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import equal_actions, finite_mdp, two_state
from sbeed.ops import prox
from sbeed.theory import exact
from sbeed.theory.claim import Draw
from sbeed.theory.claims import dual_approximation, dual_sign, loss_to_solution, mixing, primal_gradient
from sbeed.theory.operators import soft_optimum, state_norm

POINT = Draw(jnp.array(0.1), jnp.array([1.0, -2.0]), jnp.array([[0.0, 1.0], [0.5, -1.0]]))


@pytest.mark.parametrize(("sign", "factor"), [(1, 0.95), (-1, 1.05)])
def test_E1_the_printed_sign_climbs(sign, factor):
    # One state, two equal actions, V = 0, pi uniform, rho = 0: delta = lam log 2, G = -delta / 2 for both actions.
    # P(xi G) = xi delta / 2, so with xi = .1 delta - rho falls to .95 delta; with the printed minus it grows to 1.05.
    mdp = equal_actions()
    point = Draw(jnp.array(0.5), jnp.zeros(1), jnp.zeros((1, 2)))
    rho = prox.euclidean(jnp.zeros((1, 2)), sign * 0.1 * dual_sign.printed_gradient(mdp, point, jnp.zeros((1, 2))))
    np.testing.assert_allclose(dual_sign.dual_loss(mdp, point, rho), (factor * 0.5 * np.log(2)) ** 2, rtol=1e-12)


def test_dual_class_of_zero_alone_loses_the_whole_loss():
    mdp = two_state(noise=0.3)
    gap = dual_approximation.loss_gap(mdp, POINT, jnp.zeros_like(mdp.pi_b))
    np.testing.assert_allclose(gap, exact.ell(mdp, POINT.V, POINT.log_pi, POINT.lam), rtol=1e-12)


def test_E10_the_lemma_as_typed_fails_and_as_meant_holds():
    # gamma = lam = 1/2, R = 0, V = V* + 1, ||V - V*||^2 = (gamma - 1)^2 = .25. pi(0) = e^-1 / 2 leaves no error
    # on action 0; on action 1, e = -.5 - .5 log(2 - e^-1) = -.74494, so 2 ell = 2 * .01 * .55494 = .0110987 < .25.
    # The dropped term: log pi - log pi* = (-1, log(2 - e^-1)) = (-1, .48989), 2 lam^2 (.99 + .01 * .24) = .4962.
    lam = 0.5
    mdp, (V, log_pi) = loss_to_solution.unseen_error(lam)
    optimum = soft_optimum(mdp, lam)
    error = state_norm(mdp, V - optimum.V) ** 2
    loss = exact.ell(mdp, V, log_pi, lam)
    policies = loss_to_solution.squared_norm(mdp, log_pi - optimum.log_pi)
    np.testing.assert_allclose(error, 0.25, rtol=1e-12)
    np.testing.assert_allclose(2 * loss, 0.02 * (0.5 + 0.5 * np.log(2 - np.exp(-1))) ** 2, rtol=1e-12)
    assert 2 * loss < error <= 2 * loss + 2 * lam**2 * policies


def test_E10_first_term_needs_lam_squared():
    # With every error zero at (V*, pi*), ell(V*, pi_w) = lam^2 ||log pi_w - log pi*||^2; lam alone is too much below 1.
    mdp, lam = two_state(noise=0.3), 0.1
    log_pi_w = POINT.log_pi
    V, log_pi = soft_optimum(mdp, lam)
    gap = exact.ell(mdp, V, log_pi_w, lam) - exact.ell(mdp, V, log_pi, lam)
    distance = loss_to_solution.squared_norm(mdp, log_pi_w - log_pi)
    np.testing.assert_allclose(gap, lam**2 * distance, rtol=1e-9)
    assert lam * distance > 9 * gap


def test_E10_first_term_needs_the_optimal_V():
    # At another V, pi*_lam is not the best policy: .0055 - .25 < 0 in the lemma's example.
    lam = 0.5
    mdp, (V, log_pi_w) = loss_to_solution.unseen_error(lam)
    gap = exact.ell(mdp, V, log_pi_w, lam) - exact.ell(mdp, V, soft_optimum(mdp, lam).log_pi, lam)
    np.testing.assert_allclose(gap, 0.0110987 / 2 - 0.25, rtol=1e-5)


def test_E10_the_implicit_term_carries_no_gamma():
    # Let rho(V) = E[delta | s, a] + 1, so that E[delta - rho | s, a] = -1 and drho/dV = gamma P. The implicit term is
    # +2 eta E[(delta - rho) drho/dV] = -2 eta gamma E[1{s' = .}]; the proof's 2 eta gamma would put gamma^2.
    mdp, eta = two_state(noise=0.3), 0.7

    def rho(V):
        return exact.delta_bar(mdp, V, POINT.log_pi, POINT.lam) + 1.0

    def following(V):
        return exact.L_eta(mdp, V, POINT.log_pi, rho(V), POINT.lam, eta)

    @jax.jit
    def implicit_term(V):
        explicit, _ = primal_gradient.theorem(mdp, V, POINT.logits, rho(V), POINT.lam, jnp.array(eta))
        return jax.grad(following)(V) - explicit

    implicit = implicit_term(POINT.V)
    next_state = jnp.einsum("s,sa,sat->t", mdp.mu, mdp.pi_b, mdp.P)
    np.testing.assert_allclose(implicit, -2 * eta * mdp.gamma * next_state, rtol=1e-10)


def test_mixing_of_two_states_by_hand():
    # P = [[.9, .1], [.3, .7]]: mu = (.75, .25); a start is forgotten at the rate 1 - .1 - .3 = .6, the coefficient.
    # TV(P^m(s, .), mu) = .6^m (1 - mu(s)), so beta_m = 2 * .75 * .25 * .6^m: the bound is attained.
    mdp = finite_mdp([[[0.9, 0.1]], [[0.3, 0.7]]], np.zeros((2, 1)), mu=[0.75, 0.25])
    chain = mixing.state_chain(mdp)
    states, _ = mixing.beta(mdp, chain)
    np.testing.assert_allclose(mixing.dobrushin(chain), 0.6, rtol=1e-12)
    np.testing.assert_allclose(states, 0.375 * 0.6 ** np.arange(1, mixing.LONGEST + 1), rtol=1e-10)


def test_E11_the_printed_condition_admits_a_chain_that_never_mixes():
    # Two states that take turns: beta_m = 1/2 for every m. It lies under 2^(-1/m), the printed envelope with
    # beta_bar = 1 and b = log 2, at every m (tight at m = 1); under 2^-m beta_bar only if beta_bar >= 2^(m - 1).
    mdp = finite_mdp(np.eye(2)[::-1, None], np.zeros((2, 1)))
    states, _ = mixing.beta(mdp, mixing.state_chain(mdp))
    m = jnp.arange(1, mixing.LONGEST + 1)
    np.testing.assert_array_equal(states, 0.5)
    assert jnp.all(states <= mixing.envelope(m, jnp.log(2), kappa=-1) * (1 + 1e-15))
    np.testing.assert_allclose(states / mixing.envelope(m, jnp.log(2), kappa=1), 2.0 ** (np.asarray(m) - 1), rtol=1e-12)


def test_E11_the_printed_envelope_rises_to_one():
    # b = log 2: exp(-b / m) = 2^(-1/m) rises from 1/2 to 1, exp(-b m) = 2^-m falls.
    m = jnp.array([1.0, 2.0, 1e6])
    np.testing.assert_allclose(mixing.envelope(m, jnp.log(2), kappa=-1), [0.5, 2**-0.5, 2**-1e-6], rtol=1e-12)
    np.testing.assert_allclose(mixing.envelope(m, jnp.log(2), kappa=1), [0.5, 0.25, 0.0], rtol=1e-12)
