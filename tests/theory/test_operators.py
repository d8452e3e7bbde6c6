"""Exact dynamic programming against hand numbers and its defining equations."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs import tabular
from sbeed.theory import enumerate as enumeration
from sbeed.theory import exact, operators, sampling


def test_two_state_by_hand():
    # Stay in the good state for ever: 1 / (1 - .9) = 10. From the bad one: switch, .5 + .9 * 10 = 9.5
    np.testing.assert_allclose(operators.hard_optimum(tabular.two_state()), [10.0, 9.5], rtol=1e-12)


def test_equal_actions_by_hand():
    # V = lam log 2 + gamma V, so V = .5 log 2 / .7
    optimum = operators.soft_optimum(tabular.equal_actions(gamma=0.3), 0.5)
    np.testing.assert_allclose(optimum.V, 0.5 * np.log(2) / 0.7, rtol=1e-13)
    np.testing.assert_allclose(optimum.log_pi, np.log(0.5), rtol=1e-13)


def test_soft_optimum_is_a_fixed_point_at_every_temperature():
    mdp = tabular.garnet(jax.random.key(0), states=20, actions=4, gamma=0.99)
    for lam in (1e-3, 1e-1, 10.0):
        V, log_pi = operators.soft_optimum(mdp, lam)
        np.testing.assert_allclose(operators.smoothed_bellman(mdp, V, lam), V, rtol=1e-12)
        np.testing.assert_allclose(operators.policy_value(mdp, log_pi, lam), V, rtol=1e-10)


def test_hard_optimum_is_a_fixed_point():
    for mdp in (tabular.chain(), tabular.cliff(), tabular.garnet(jax.random.key(1), states=30, actions=5)):
        V = operators.hard_optimum(mdp)
        np.testing.assert_allclose(operators.bellman(mdp, V), V, atol=1e-12)


def test_entropy_of_a_coin():
    np.testing.assert_allclose(operators.entropy(jnp.log(jnp.array([[0.5, 0.5]]))), np.log(2))


def test_enumerations_are_distributions():
    mdp = tabular.garnet(jax.random.key(0), states=3, actions=2)
    np.testing.assert_allclose(enumeration.transitions(mdp).weight.sum(), 1)
    paths = enumeration.paths(mdp, 3)
    assert paths.s.shape == (3 * 6**3, 4)
    np.testing.assert_allclose(paths.weight.sum(), 1)
    np.testing.assert_allclose(paths.open_loop.sum(), 3 * 2**3)  # one for each s_0 and action sequence


def test_one_step_paths_are_the_transitions():
    mdp = tabular.garnet(jax.random.key(0), states=3, actions=2)
    paths, transitions = enumeration.paths(mdp, 1), enumeration.transitions(mdp)
    np.testing.assert_array_equal(paths.s[:, 1], transitions.s_next)
    np.testing.assert_allclose(paths.weight, transitions.weight, rtol=1e-14)


def test_exact_objectives_agree_with_sampling():
    mdp = tabular.garnet(jax.random.key(0), states=4, actions=2)
    counts = sampling.transition_counts(mdp, jax.random.key(1), (10_000, 100_000))
    assert counts[0].sum() == 10_000
    assert counts[1].sum() == 100_000
    assert (counts[1] >= counts[0]).all()
    empirical = sampling.empirical_mdp(mdp, counts[1])
    np.testing.assert_allclose(empirical.P, mdp.P, atol=0.03)
    np.testing.assert_allclose(empirical.mu, mdp.mu, atol=0.02)
    V, log_pi = jnp.arange(4.0), jnp.full((4, 2), jnp.log(0.5))
    rho = exact.delta_bar(mdp, V, log_pi, 0.1)
    expected = exact.dual_loss(mdp, V, log_pi, rho, 0.1)
    np.testing.assert_allclose(exact.dual_loss(empirical, V, log_pi, rho, 0.1), expected, rtol=0.05)


def test_a_pair_never_visited_has_no_weight():
    mdp = tabular.garnet(jax.random.key(0), states=3, actions=2)
    counts = jnp.zeros((3, 2, 3), int).at[0, 0, 1].set(4)
    empirical = sampling.empirical_mdp(mdp, counts)
    np.testing.assert_allclose(empirical.mu, [1, 0, 0])
    np.testing.assert_allclose(empirical.P.sum(-1), 1)
    np.testing.assert_allclose(empirical.pi_b[0], [1, 0])
