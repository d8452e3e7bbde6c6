import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import FiniteMDP, equal_actions, garnet, garnets, two_state
from sbeed.ops.schedules import TwoTimeScales, constant
from sbeed.theory import exact, solve
from sbeed.theory.claims.sampled_optimum import minibatch_gradient, standard_error
from sbeed.theory.operators import soft_optimum, state_norm
from sbeed.theory.report import FAST_CODE
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.theory.solve import Point, algorithm_1, algorithm_2, newton, origin, settled

LAM = 0.1


def errors(mdp: FiniteMDP, z: Point, lam: float = LAM) -> tuple[float, float]:
    optimum = soft_optimum(mdp, lam)
    return float(jnp.abs(z.V - optimum.V).max()), float(jnp.abs(jnp.exp(z.log_pi) - jnp.exp(optimum.log_pi)).max())


def test_algorithm_1_reaches_the_optimum_of_fifty_states():
    mdps = garnets(jax.random.key(0), 2, states=50, actions=5, gamma=0.9)
    solve_all = jax.vmap(lambda mdp: algorithm_1(mdp, LAM, iterations=12_000))
    found = jax.jit(solve_all, compiler_options=FAST_CODE)(mdps)
    solution = jax.vmap(lambda mdp: soft_optimum(mdp, LAM))(mdps)
    np.testing.assert_allclose(found.V, solution.V, rtol=0, atol=1e-8)
    np.testing.assert_allclose(jnp.exp(found.log_pi), jnp.exp(solution.log_pi), rtol=0, atol=1e-6)


def test_constant_steps_do_not_feel_a_small_lam_or_a_large_gamma():
    mdps = garnets(jax.random.key(1), 4, gamma=0.99)
    found = jax.jit(jax.vmap(lambda mdp: algorithm_1(mdp, 0.02, iterations=5_000)))(mdps)
    solution = jax.vmap(lambda mdp: soft_optimum(mdp, 0.02))(mdps)
    np.testing.assert_allclose(found.V, solution.V, atol=1e-7)


def test_plain_euclidean_steps_are_far_behind():
    mdp = garnet(jax.random.key(0))
    plain = algorithm_1(mdp, LAM, iterations=2_000, step_size=0.4, distance=solve.euclidean)
    weighted = algorithm_1(mdp, LAM, iterations=2_000, step_size=0.1, distance=solve.data_weighted)
    assert errors(mdp, plain)[0] > 1
    assert errors(mdp, weighted)[0] > 1e-2
    assert errors(mdp, algorithm_1(mdp, LAM, iterations=2_000))[0] < 1e-8


def test_hand_derived_optimum_of_one_state():
    # Two equal actions, no reward: V = lam log 2 + gamma V, so V = .5 * .693147 / .7 = .495105, and pi is uniform.
    z = algorithm_1(equal_actions(gamma=0.3), 0.5, iterations=200, start=Point(jnp.ones(1), jnp.array([[1.0, -1.0]])))
    np.testing.assert_allclose(z.V, 0.5 * np.log(2) / 0.7, atol=1e-12)
    np.testing.assert_allclose(jnp.exp(z.log_pi), 0.5, atol=1e-12)


def test_pcl_is_biased_exactly_where_transitions_are_noisy():
    for noise, biased in ((0.0, False), (0.5, True)):
        mdp = two_state(noise=noise)
        V_error, _ = errors(mdp, algorithm_1(mdp, LAM, iterations=3_000, eta=0.0))
        assert (V_error > 0.1) == biased
        assert biased or V_error < 1e-8


def test_pcl_ends_at_a_stationary_point_of_its_own_objective():
    mdp = two_state(noise=0.5)
    z = algorithm_1(mdp, LAM, iterations=3_000, eta=0.0)
    rho = exact.delta_bar(mdp, z.V, z.log_pi, LAM)
    for g in solve.primal_gradient(mdp, z, rho, LAM, 0.0):
        np.testing.assert_allclose(g, 0, atol=1e-10)


@pytest.mark.parametrize("eta", [0.0, 0.5, 1.0])
def test_a_step_in_V_is_newtons_for_V_alone(eta):
    # L_eta at the dual optimum is quadratic in V, with twice D_V as its curvature: a step of 1/2 lands on the minimum.
    mdp = garnet(jax.random.key(2))
    z = Point(jnp.arange(6.0), jnp.zeros((6, 3)))

    def g(z):
        return solve.primal_gradient(mdp, z, exact.delta_bar(mdp, z.V, z.log_pi, LAM), LAM, eta)

    moved = solve.residual_norm(mdp, LAM, eta)(z, solve.scaled(0.5, g(z)))
    np.testing.assert_allclose(g(Point(moved.V, z.logits)).V, 0, atol=1e-12)


def test_the_distance_of_V_is_the_papers_norm():
    # P_z(g) with g = <state_norm^2 / 2>' at d moves V by -d.
    mdp, d = garnet(jax.random.key(3)), jnp.arange(6.0)
    g = jax.grad(lambda V: state_norm(mdp, V) ** 2 / 2)(d)
    z = origin(mdp)
    np.testing.assert_allclose(solve.residual_norm(mdp, LAM)(z, Point(g, z.logits)).V, -d, atol=1e-9)


def test_algorithm_2_reaches_the_same_point_and_a_hasty_primal_diverges():
    mdp = garnet(jax.random.key(0))
    assert errors(mdp, algorithm_2(mdp, LAM, iterations=20_000))[0] < 1e-7
    hasty = TwoTimeScales(primal=constant(0.4), dual=constant(0.02))
    assert not errors(mdp, algorithm_2(mdp, LAM, iterations=2_000, steps=hasty))[0] < 1


def test_rounds_end_once_nothing_moves():
    # V halves each round: from 1 it moves by 1/2, 1/4, 1/8, and 1/8 is the first within .2. Or it has three rounds.
    def halve(_, z):
        return Point(z.V / 2, z.logits)

    start = Point(jnp.ones(1), jnp.zeros((1, 2)))
    assert settled(halve, start, 0.2, most=50).V == 1 / 8
    assert settled(halve, start, 0.0, most=3).V == 1 / 8


def test_newton_is_quadratic_near_the_solution():
    mdp = garnet(jax.random.key(0), gamma=0.99)
    near = algorithm_1(mdp, LAM, iterations=100)
    assert errors(mdp, near)[0] > 1e-3

    def point(w):
        return Point(w[:6], w[6:].reshape(6, 3))

    def loss(w):
        return exact.ell(mdp, point(w).V, point(w).log_pi, LAM)

    w = jax.jit(lambda w: newton(loss, w, iterations=40))(jnp.concatenate([near.V, near.logits.ravel()]))
    assert errors(mdp, point(w))[0] < 1e-8


def test_holding_nu_leaves_no_noise_at_the_optimum_but_holding_rho_does():
    # Same mean at the dual optimum; on a minibatch only the form with rho held feels delta - rho.
    mdp = garnet(jax.random.key(0))
    optimum = soft_optimum(mdp, LAM)
    z = Point(optimum.V, optimum.log_pi)
    batch = empirical_mdp(mdp, transition_counts(mdp, jax.random.key(1), (1_000,))[0])
    held_nu = minibatch_gradient(batch, z, jnp.zeros((6, 3)), LAM, 1.0)
    held_rho = solve.primal_gradient(batch, z, exact.delta_bar(mdp, z.V, z.log_pi, LAM), LAM, 1.0)
    assert jnp.abs(held_nu.V).max() < 1e-10
    assert jnp.abs(held_rho.V).max() > 1e-4


def test_standard_error_by_hand():
    # No noise in P: none in V. A coin between two equal states has no variance of V either.
    mdp = two_state(noise=0.0)
    np.testing.assert_allclose(standard_error(mdp, soft_optimum(mdp, LAM), jnp.full((2, 2), 100.0)), 0, atol=1e-8)


def test_standard_error_is_the_spread_of_many_paths():
    mdp = two_state(noise=0.5)
    optimum = soft_optimum(mdp, LAM)
    counts = jax.vmap(lambda k: transition_counts(mdp, k, (4_000,))[0])(jax.random.split(jax.random.key(0), 200))
    V = jax.vmap(lambda c: soft_optimum(empirical_mdp(mdp, c), LAM).V)(counts)
    predicted = standard_error(mdp, optimum, counts.sum(-1).mean(0))
    # The relative error of a standard deviation of 200 draws is 1 / sqrt 400 = .05; three of those.
    np.testing.assert_allclose(V.std(0, ddof=1), predicted, rtol=0.15)
