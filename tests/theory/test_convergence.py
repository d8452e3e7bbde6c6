"""Stationary points, the two time scales and the joint limit: hand numbers and limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import equal_actions, finite_mdp, garnet, two_state
from sbeed.theory import report
from sbeed.theory.claims import joint_limit, lambda_tradeoff, random_iterate, two_time_scales
from sbeed.theory.operators import soft_optimum


def test_E8_printed_bound_is_below_a_gradient_that_the_corrected_one_meets():
    # f = 2 x^2 from x = 1: f' = 4, f'^2 = 16; K = 4, D^2 = 2 (2 - 0) / 4 = 1, no noise, N = 1, and w^1 is the start.
    claim = random_iterate.counterexample()
    assert claim.lhs == 16
    assert claim.rhs == 4
    assert random_iterate.bound(4.0, 0.0, 1.0, 1.0, 1) == 16


def test_E8_only_the_corrected_bound_scales_as_a_squared_gradient():
    # f -> 3 f multiplies K and sigma by 3, leaves D alone and multiplies |grad f|^2 by 9.
    K, sigma, D, distance, N = 2.0, 0.5, 1.5, 1.0, 100
    for bound, factor in ((random_iterate.bound, 9), (random_iterate.printed_bound, 3)):
        assert bound(3 * K, 3 * sigma, D, distance, N) == pytest.approx(factor * bound(K, sigma, D, distance, N))


def test_random_iterate_bound_by_hand():
    # K [K D^2/N + (D' + D^2/D') sigma/sqrt N] = 2 [2 * 1/9 + (2 + 1/2) 3/3] = 2 (2/9 + 5/2) = 49/9
    assert random_iterate.bound(2.0, 3.0, 1.0, 2.0, 9) == pytest.approx(49 / 9)


def test_no_gradient_noise_at_the_solution_of_a_deterministic_mdp():
    # Every transition satisfies the consistency equation there, so every stochastic gradient is zero.
    mdp, lam = two_state(), jnp.asarray(0.5)
    solution = soft_optimum(mdp, lam)
    w = jnp.concatenate([solution.V, solution.log_pi.ravel()])
    premises = jax.jit(random_iterate.premises)
    seen = premises(mdp, w, lam)
    assert seen.variance < 1e-20
    assert seen.bias < 1e-12
    assert premises(two_state(noise=0.5), w, lam).variance > 1e-3


def test_smoothness_by_hand():
    # One state, two equal actions, gamma .3, lam .5, at V = 0 and pi uniform: Delta = lam log 2 for both actions.
    # In V: 2 (1 - gamma)^2 = .98. In the logits, along the unit vector d = (1, -1)/sqrt 2:
    # d log pi = d, so 2 lam^2 E[(d log pi)^2] = 2 lam^2 / 2 = .25; -d^2 log pi = pi-variance of d = 1/2,
    # so 2 lam Delta / 2 = lam^2 log 2 = .1733. V and logits do not mix: E[d log pi] = 0. Norm: max(.98, .4233).
    mdp, lam = equal_actions(), jnp.asarray(0.5)
    hessian = jax.jit(jax.hessian(random_iterate.objective, argnums=1))(mdp, jnp.zeros(3), lam)
    d = jnp.array([0, 1, -1]) / jnp.sqrt(2)
    assert d @ hessian @ d == pytest.approx(0.25 + 0.25 * np.log(2))
    assert jax.jit(random_iterate.premises)(mdp, jnp.zeros(3), lam).smoothness == pytest.approx(0.98)


def test_norm_bound_is_above_the_norm_and_close():
    # Eigenvalues 3, 3 and -1: the norm is 3 and the bound 3 * 2^(1/64).
    rotation = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2 + np.eye(3))[0]
    H = jnp.asarray(rotation @ np.diag([3.0, -1.0, 3.0]) @ rotation.T)
    assert random_iterate.norm_bound(H) == pytest.approx(3 * 2 ** (1 / 64))


def test_the_neural_dual_is_a_table_of_a_tanh_network():
    mdp = jax.jit(garnet)(jax.random.key(0))
    dual = jax.jit(two_time_scales.random_dual)(mdp, jax.random.key(1))
    rho = dual()
    assert rho.shape == (6, 3)
    by_hand = np.tanh(dual.by_state[4] + dual.by_action[2] + dual.bias) @ dual.out + dual.offset
    assert rho[4, 2] == pytest.approx(float(by_hand))


def test_the_neural_V_is_a_table_of_a_tanh_network():
    mdp = jax.jit(garnet)(jax.random.key(0))
    primal = jax.jit(two_time_scales.random_primal)(mdp, jax.random.key(1))
    V = primal.V()
    assert V.shape == (6,)
    by_hand = np.tanh(primal.V.by_state[4] + primal.V.bias) @ primal.V.out + primal.V.offset
    assert V[4] == pytest.approx(float(by_hand))
    np.testing.assert_allclose(primal.log_pi, -np.log(3), rtol=1e-12)


def test_settling_asks_for_a_fall_in_every_decade_and_a_small_end():
    j = jnp.arange(101)
    assert bool(two_time_scales.settles(1 / (1 + j)[None]).holds)
    # Flat; down to a twentieth at once and flat from there; falling as j^-1/4, but from 1/2.
    assert not bool(two_time_scales.settles(jnp.ones((1, 101))).holds)
    assert not bool(two_time_scales.settles(jnp.where(j < 1, 1, 0.05)[None]).holds)
    assert not bool(two_time_scales.settles(jnp.append(1.0, 0.5 * j[1:] ** -0.25)[None]).holds)


def test_settling_by_hand():
    # Lengths 0.2 j^-1/2 after a start of 1: a decade's fall is 10^-1/2 = .316 of .8; the end is about .02 of .1.
    claim = two_time_scales.settles(jnp.append(1.0, 0.2 * jnp.arange(1, 101) ** -0.5)[None])
    assert claim.lhs == pytest.approx(10**-0.5)
    assert claim.rhs == 0.8


def test_a_slow_dual_diverges_where_a_fast_one_does_not():
    slow = jax.jit(two_time_scales.counterexample)()
    assert 1e3 * slow.rhs < slow.lhs < jnp.inf
    fast = jax.jit(
        lambda: two_time_scales.reaches_equilibrium(
            two_state(noise=0.5), jax.random.key(0), eta=1.0, steps=two_time_scales.STEPS, iterations=1_000
        )
    )()
    assert bool(fast.holds)


def test_with_the_steps_exchanged_the_check_fails_on_every_garnet(monkeypatch):
    right = report.examine(two_time_scales.STATEMENT, mdps=6, seed=2)
    monkeypatch.setattr(two_time_scales, "STEPS", two_time_scales.REVERSED)
    exchanged = report.examine(two_time_scales.STATEMENT, mdps=6, seed=2)
    assert (right.held, exchanged.held) == (6, 0)


def test_the_joint_limit_asks_for_errors_that_follow_lam():
    mdp = equal_actions(gamma=0.5)
    most = 2 * joint_limit.LAMS * np.log(2) / 0.5
    follows, stalls = jnp.asarray(most / 2), jnp.full(4, most[0] / 2)
    assert bool(joint_limit.vanishing(mdp, (follows, follows)).holds)
    assert not bool(joint_limit.vanishing(mdp, (stalls, stalls)).holds)


def test_smoothing_bias_by_hand():
    # Equal actions without reward: V*_lam = lam log 2 / (1 - .3) and V* = 0.
    mdp = equal_actions()
    bias = jax.jit(lambda: lambda_tradeoff.smoothing_bias(mdp, lambda_tradeoff.solutions(mdp)))()
    np.testing.assert_allclose(bias[:, 0], lambda_tradeoff.LAMS * np.log(2) / 0.7, rtol=1e-12)


def test_what_a_blind_policy_loses_by_hand():
    # Two states that never change, rewards (1, 0) and (0, 1), gamma .5: by symmetry pi*_lam of one is the other's with
    # the actions exchanged, so the blind policy is uniform, worth (1/2 + lam log 2) / .5. The optimum is worth
    # lam log(e^(1/lam) + 1) / .5 in both states, and the bound is span^2 / (8 lam .5) = 4 / (4 lam) = 1 / lam.
    mdp = finite_mdp(np.stack([np.eye(2), np.eye(2)], axis=1), np.eye(2), gamma=0.5)
    found = jax.jit(lambda_tradeoff.solutions)(mdp)
    loss = lambda_tradeoff.approximation_error(mdp, found, lambda_tradeoff.blind)
    lam = lambda_tradeoff.LAMS
    by_hand = 2 * (lam * np.logaddexp(1 / lam, 0) - 0.5 - lam * np.log(2))
    np.testing.assert_allclose(loss, np.stack([by_hand, by_hand], axis=1), rtol=1e-9)
    np.testing.assert_allclose(lambda_tradeoff.most_approximation_error(mdp, found), 1 / lam, rtol=1e-9)


def test_the_trade_asks_for_a_minimum_inside():
    def claim(total):
        return lambda_tradeoff.least_inside(jnp.asarray(total)[None, :, None], jnp.zeros((1, len(total), 1)))

    assert bool(claim([1.0, 0.8, 2.0]).holds)
    assert not bool(claim([1.0, 1.1, 2.0]).holds)
    assert not bool(claim([2.0, 1.1, 1.0]).holds)
