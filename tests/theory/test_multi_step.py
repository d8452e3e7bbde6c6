"""k-step and trace consistency by hand, and errata E2 and E4."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import equal_actions, telling_actions
from sbeed.theory import exact
from sbeed.theory.claims import multi_step_consistency, multi_step_scale, trace_consistency, what_rho_sees
from sbeed.theory.enumerate import given_actions, paths
from sbeed.theory.operators import policy_value, soft_optimum


def test_telling_actions_solved_by_hand():
    # pi* is uniform, the actions being equal. V0 = lam log 2 + gamma (V1 + V2) / 2, V1,2 = +-1 + lam log 2 + gamma V0
    # => V0 = lam log 2 / (1 - gamma) = .1 * .693147 / .1 = .693147, V1,2 = +-1 + .0693147 + .9 * .693147.
    V, log_pi = soft_optimum(telling_actions(), 0.1)
    np.testing.assert_allclose(V, np.log(2) + np.array([0, 1, -1]), rtol=1e-12)
    np.testing.assert_allclose(log_pi, -np.log(2), rtol=1e-12)


def test_two_step_target_by_hand():
    # One state, r = 0, pi uniform: delta = (1 + gamma) lam log 2 + gamma^2 V = 1.3 * .5 * .693147 + .09 * 2 = .630546.
    mdp = equal_actions(gamma=0.3)
    V, log_pi = jnp.array([2.0]), jnp.full((1, 2), -jnp.log(2))
    delta = jax.jit(lambda: exact.delta_k_step(mdp, paths(mdp, 2), V, log_pi, 0.5, 2))()
    np.testing.assert_allclose(delta, np.full(4, 0.65 * np.log(2) + 0.18), rtol=1e-12)


@pytest.mark.parametrize(("seen", "expected"), [(0, 0.25), (1, 0.75), (2, 1.0)])
def test_given_actions_by_hand(seen, expected):
    # One state, two actions, pi_b uniform, x of (a_0, a_1) = 00, 01, 10, 11: E[x] = 1/4, E[x | 0] = 3/4, E[x | 00] = 1.
    mdp = equal_actions()
    p = paths(mdp, 2)
    x = jnp.array([1.0, 0.5, 0.0, -0.5])
    np.testing.assert_allclose(given_actions(mdp, 2, seen, x, p.weight)[0], expected, rtol=1e-12)


def test_any_policys_own_value_is_consistent_in_the_mean_over_its_actions():
    # What makes the counterexample of multi_step_consistency one: only the demand for *every* action is dropped.
    @jax.jit
    def two_step_means_and_values():
        pi, lam = jnp.array([[0.9, 0.1]] * 3), 0.1
        mdp = replace(telling_actions(), pi_b=pi)
        V = policy_value(mdp, jnp.log(pi), lam)
        p = paths(mdp, 2)
        delta = exact.delta_k_step(mdp, p, V, jnp.log(pi), lam, 2)
        return given_actions(mdp, 2, 0, delta, p.weight), V[p.s[:, 0]]

    means, values = two_step_means_and_values()
    np.testing.assert_allclose(means, values, rtol=1e-12)
    # Its distance to V*_lam, the actions being equal, is lam (log 2 - H(.9)) / (1 - gamma) = .693147 - .325083.
    claim = jax.jit(multi_step_consistency.counterexample)()
    np.testing.assert_allclose(claim.lhs, 0.368064, rtol=1e-5)
    assert claim.rhs < 2e-9


def test_trace_by_hand():
    # delta_1 = 1 + 8/2 = 5, delta_2 = 1 + 2/2 + 8/4 = 4, delta_3 = 1 + 2/2 + 4/4 + 8/8 = 4
    # weights 1/2, 1/4 and the 1/4 that is left: 2.5 + 1 + 1 = 4.5
    r, never = jnp.array([1.0, 2.0, 4.0]), jnp.zeros(3, bool)
    delta = equations.delta_trace(r, 0 * r, jnp.full(3, 8.0), never, never, gamma=0.5, lam=0.0, trace=0.5)
    np.testing.assert_allclose(delta[0], 4.5, rtol=1e-15)


@pytest.mark.parametrize(("trace", "expected"), [(0.0, [1, 0, 0]), (0.5, [0.5, 0.25, 0.25]), (1.0, [0, 0, 1])])
def test_trace_weights_by_hand(trace, expected):
    np.testing.assert_allclose(trace_consistency.weights(trace), expected, rtol=1e-15)


def test_dropping_the_weight_left_loses_its_share_of_V():
    # Every target has mean V, so weights that sum to 1 - .8^3 are off by .8^3 = .512 of V.
    claim = jax.jit(trace_consistency.counterexample)()
    np.testing.assert_allclose(claim.lhs, 0.512, rtol=1e-9)


def test_E2_a_dual_that_sees_telling_actions_is_biased():
    # From s_0 = 0 the 2-step target is V0 +- gamma, the sign that of s_1. Action a_1 names s_1 with odds 9 : 1, so that
    # E[delta - V | s_0, a_0, a_1] = +-(.9 - .1) gamma = +-.72. From 1 and 2 the path visits 0: no news there.
    # L = mu(0) .72^2 = .2592, where the first action alone leaves L = 0.
    mdp, lam = telling_actions(), 0.1
    biased = jax.jit(jax.value_and_grad(what_rho_sees.loss, (1, 2)), static_argnums=4)
    optimum = soft_optimum(mdp, lam)
    first, every = (biased(mdp, *optimum, lam, seen) for seen in (1, 2))
    np.testing.assert_allclose(first[0], 0.0, atol=1e-14)
    np.testing.assert_allclose(every[0], 0.2592, rtol=1e-12)
    assert max(jnp.abs(g).max() for g in first[1]) < 1e-14
    # The gradient: V enters nu only by (gamma^2 - 1) V(0), and E[nu | s_0] = 0. The logit of action 0 at s_1 enters by
    # -lam gamma (1{a_1 = 0} - 1/2) = -+.045, so it feels 2 mu(0) P(s_1) (.9 * .72 + .1 * .72) (-.045) = -.0162.
    np.testing.assert_allclose(every[1][0], 0.0, atol=1e-14)
    np.testing.assert_allclose(every[1][1], [[0.0, 0.0], [-0.0162, 0.0162], [-0.0162, 0.0162]], atol=1e-12)


def test_E2_no_bias_where_the_next_state_is_certain():
    # With P deterministic the actions are all that is random, and seeing them all is harmless.
    mdp = telling_actions()
    mdp = replace(mdp, P=mdp.P.at[0].set(jnp.array([0.0, 1.0, 0.0])))
    loss = jax.jit(what_rho_sees.loss, static_argnums=4)
    np.testing.assert_allclose(loss(mdp, *soft_optimum(mdp, 0.1), 0.1, 2), 0.0, atol=1e-14)


def test_E4_the_printed_multi_step_saddle_is_half_the_loss():
    # One state, x = delta - V = .630546 - 2 on every path (see above): loss x^2, at nu = x the saddles x^2 and x^2 / 2.
    x = 0.65 * np.log(2) + 0.18 - 2
    delta, v, weight = jnp.full(4, x + 2), jnp.full(4, 2.0), jnp.full(4, 0.25)
    nu = delta - v
    np.testing.assert_allclose(equations.L(delta, v, nu, weight), x**2, rtol=1e-12)
    np.testing.assert_allclose(multi_step_scale.printed(delta, v, nu, weight), x**2 / 2, rtol=1e-12)
