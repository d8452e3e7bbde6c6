"""The smoothed Bellman equation: hand numbers, limits, errata E3 and E5."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import FiniteMDP, equal_actions, finite_mdp, two_state
from sbeed.theory.claims import bounded_values, decomposed_bias, smoothing_bias
from sbeed.theory.claims.bellman_forms import deterministic_policies, regularised
from sbeed.theory.claims.entropy_shaping import induced
from sbeed.theory.claims.temporal_consistency import residual
from sbeed.theory.operators import (
    Optimum,
    backup,
    bellman,
    hard_optimum,
    smoothed_bellman,
    smoothed_greedy,
    soft_optimum,
)

LOG_2 = 0.6931471805599453
bias, squared_bias, optimum_of = map(jax.jit, (smoothing_bias.bias, decomposed_bias.squared_bias, soft_optimum))


def test_the_hard_optimum_of_two_states():
    # Staying in the good state pays 1 for ever: 1 / (1 - .9) = 10. The bad one switches: .5 + .9 * 10 = 9.5 > .9 * 9.5.
    np.testing.assert_allclose(hard_optimum(two_state()), [10.0, 9.5])
    np.testing.assert_allclose(bellman(two_state(), jnp.array([10.0, 9.5])), [10.0, 9.5])


def test_the_smoothed_maximum_by_hand():
    # V = 0, lam = 1: backups (1, 0) and (0, .5); log(e + 1) = 1.3132617, log(1 + e^.5) = 0.9740770.
    mdp, V = two_state(), jnp.zeros(2)
    assert smoothed_bellman(mdp, V, 1.0) == pytest.approx([1.3132617, 0.9740770])
    # The maximiser stays with probability 1 / (1 + e^-1) = 0.7310586 in the good state.
    log_pi = smoothed_greedy(mdp, V, 1.0)
    assert jnp.exp(log_pi[0, 0]) == pytest.approx(0.7310586)
    # E[Q] + H = .7310586 + .5822031: the same 1.3132617.
    assert regularised(backup(mdp, V), log_pi, 1.0)[0] == pytest.approx(1.3132617)
    # A fair coin: .5 + log 2 = 1.1931472, which is KL(coin || greedy) = 0.1201145 less.
    coin = jnp.full((2, 2), -LOG_2)
    assert regularised(backup(mdp, V), coin, 1.0)[0] == pytest.approx(1.3132617 - 0.1201145)


def test_all_deterministic_policies_are_counted():
    policies = deterministic_policies(two_state())
    assert policies.shape == (4, 2, 2)
    assert len(np.unique(np.asarray(policies), axis=0)) == 4


def test_equal_actions_attain_the_smoothing_bias():
    # V*_lam = lam log A + gamma V*_lam, V* = 0: the bound lam log A / (1 - gamma) with equality, linear in lam.
    lams = jnp.array([1e-6, 1e-3, 0.5, 20.0])
    np.testing.assert_allclose(bias(equal_actions(7), lams)[:, 0], lams * np.log(7) / 0.7)


def test_with_a_clear_best_action_the_bias_vanishes_faster_than_any_power():
    # Action gaps at V* = (10, 9.5): 10 - .9 * 9.5 = 1.45 and 9.5 - .9 * 9.5 = .95, so T_lam V* - V* is at most
    # lam log(1 + e^(-.95/lam)) < lam e^(-.95/lam), and the bias at most 1 / (1 - gamma) = 10 times that.
    lams = jnp.array([0.3, 0.1, 0.03])
    gap = bias(two_state(), lams).max(-1)
    assert (gap <= 10 * lams * jnp.exp(-0.95 / lams)).all()
    assert gap[-1] < 1e-12 < gap[0]


def test_a_shift_of_V_makes_the_consistency_bound_tight():
    # V*_lam + c with pi*_lam: e = gamma c - c at every (s, a), so ||e|| / (1 - gamma) = c = ||V - V*_lam|| exactly.
    mdp, lam = two_state(noise=0.3), 0.5
    optimum = optimum_of(mdp, lam)
    e = residual(mdp, Optimum(optimum.V + 2.0, optimum.log_pi), lam)
    assert e == pytest.approx(np.full((2, 2), -0.1 * 2.0))


def test_consistency_at_one_action_per_state_leaves_the_pair_open():
    # V = 20 has backups 1 + 18 and 0 + 18 for staying: pi(stay|s) = e^-1 and e^-2 make e = 0 there at lam 1, and so
    # would another probability for any other V this high. Only the equation at switching tells that V is wrong.
    mdp, V = two_state(), jnp.full(2, 20.0)
    log_pi = jnp.log(jnp.array([[np.exp(-1), 1 - np.exp(-1)], [np.exp(-2), 1 - np.exp(-2)]]))
    e = residual(mdp, Optimum(V, log_pi), 1.0)
    assert e[:, 0] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert jnp.abs(e[:, 1]).min() > 0.1


def test_a_fair_mixture_in_the_induced_mdp():
    # R~ = (1 + 0) / 2 + log 2 = 1.1931472 and (0 + .5) / 2 + log 2 = .9431472; P~ = (.5, .5) from both states.
    shaped = induced(two_state(), jnp.full((1, 2, 2), -LOG_2), 1.0)
    assert shaped.R[:, 0] == pytest.approx([0.5 + LOG_2, 0.25 + LOG_2])
    assert shaped.P[:, 0] == pytest.approx(np.full((2, 2), 0.5))


def test_E3_the_printed_factor_is_too_small():
    mdp, lam = equal_actions(gamma=0.3), 0.5
    # V*_lam - V* = .5 log 2 / .7 = .4951051; times (gamma - 1), squared: .3465736^2 = .1201133.
    (measured,) = squared_bias(mdp, jnp.array([lam]))
    assert measured == pytest.approx(0.1201133)
    # Printed: 2.18 * (.3 * .4951051)^2 = .0480943.   Corrected: 2.18 * .4951051^2 = .5343814.
    claim = jax.jit(decomposed_bias.counterexample)()
    assert claim.rhs == pytest.approx(0.0480943, rel=1e-5)
    assert not claim.holds
    assert measured < 2.18 * 0.4951051**2 == pytest.approx(0.5343814)


def leaves_the_entropy_behind(actions: int, gamma: float) -> FiniteMDP:
    """State 0: all actions but the last stay, for nothing; the last costs 10 and leads to state 1, which has one good
    action and keeps you. The data always take the last: gamma E[D(s')] - D(s) is -D(0) there, nearly all of its bound.
    """
    P, R = np.zeros((2, actions, 2)), np.full((2, actions), -10.0)
    P[0, :-1, 0] = P[0, -1, 1] = P[1, :, 1] = 1
    R[0, :-1] = R[1, 0] = 0
    pi_b = np.tile(np.eye(actions)[-1], (2, 1))
    return finite_mdp(P, R, mu=[0.999, 0.001], pi_b=pi_b, gamma=gamma)


def test_E3_the_printed_factor_fails_at_larger_discounts_too():
    # D(0) = lam log 8 / (1 - gamma), D(1) = 0. Share of (lam log 9 / (1 - gamma))^2: .999 (log 8 / log 9)^2 = .8948.
    # Printed share: 2 gamma^2 (gamma^2 + 1) = .625 at gamma = .5. From gamma = .605 on it exceeds 1, and holds.
    mdp, lam = leaves_the_entropy_behind(9, gamma=0.5), 0.1
    (measured,) = squared_bias(mdp, jnp.array([lam]))
    share = measured / (lam * np.log(9) / 0.5) ** 2
    assert share == pytest.approx(0.8948, abs=1e-4)
    assert 2 * 0.5**2 * (0.5**2 + 1) < share < 1


def test_E5_the_bound_on_the_value_needs_lam():
    mdp = equal_actions(gamma=0.3)
    # V*_lam = 4 log 2 / .7 = 3.9608410. Printed: (0 + log 2) / .7 = .9902103. Corrected: 3.9608410, attained.
    assert optimum_of(mdp, 4.0).V[0] == pytest.approx(3.9608410)
    claim = jax.jit(bounded_values.counterexample)()
    assert (claim.lhs, claim.rhs) == (pytest.approx(3.9608410), pytest.approx(0.9902103))
    assert not claim.holds
    # Up to lam = 1 the printed bound is the weaker one: it is only the letter that is missing.
    assert optimum_of(mdp, 1.0).V[0] == pytest.approx(claim.rhs)
