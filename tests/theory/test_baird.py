import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.theory import baird
from sbeed.theory.operators import soft_optimum


def test_every_value_has_weights_and_the_star_is_stationary():
    assert np.linalg.matrix_rank(baird.state_features()) == 7
    mdp = baird.star()
    # mu uniform; the seventh state is entered with probability 1/7, each upper one with 6/7 * 1/6 = 1/7.
    np.testing.assert_allclose(np.einsum("s,sa,sat->t", mdp.mu, mdp.pi_b, mdp.P), 1 / 7)


def test_initial_values_by_hand():
    # Upper states: 2 * 1 + 1 = 3; the seventh: 10 + 2 * 1 = 12.
    np.testing.assert_allclose(baird.state_features() @ baird.initial_weights(), [3] * 6 + [12])


@pytest.mark.parametrize("run", [baird.q_learning, baird.sbeed])
def test_both_start_from_one_Bellman_error_by_hand(run):
    # Dashed starts from ones, so Q(s, dashed) = 3 everywhere; Q(s, solid) = 3, and 12 at the seventh.
    # V = max Q = 3 at the upper states and 12 at the seventh, as V = phi w is. Backups, gamma .99: dashed 2.97, solid
    # 11.88, so far above it at lam .1 that T_lam V is 11.88. Errors: 8.88 at the upper states, -.12 at the seventh.
    expected = 6 / 7 * 8.88**2 + 1 / 7 * 0.12**2
    np.testing.assert_allclose(run(iterations=1).bellman_error[0], expected)


def test_the_smoothed_solution_is_not_zero():
    # Both actions are as good: V = lam log 2 + gamma V, so V = .1 * .693147 / .01 = 6.93147 and pi is a fair coin.
    V, log_pi = soft_optimum(baird.star(), baird.LAM)
    np.testing.assert_allclose(V, 10 * np.log(2), rtol=1e-10)
    np.testing.assert_allclose(log_pi, -np.log(2), rtol=1e-10)


def test_sbeed_ends_at_the_smoothed_solution():
    # The shortest change of w adds nothing to phi's null vector n: phi n = 0 makes n = (1, ..., 1, 4, -2) up to scale
    # (2 - 2 = 0 above, 4 - 2 * 2 = 0 at the seventh), with n w = 6 + 40 - 2 = 44 at the start and |n|^2 = 26. So |w|^2
    # ends at |pinv(phi) V|^2 + 44^2 / 26.
    phi, n = baird.state_features(), np.array([1, 1, 1, 1, 1, 1, 4, -2])
    np.testing.assert_allclose(phi @ n, 0)
    shortest = jnp.linalg.pinv(phi) @ np.full(7, 10 * np.log(2))
    run = baird.sbeed(iterations=3_000, every=1_000)
    np.testing.assert_allclose(run.weight_norm[-1] ** 2, shortest @ shortest + 44**2 / 26, rtol=1e-6)
    assert run.bellman_error[-1] < 1e-18


def test_q_learning_diverges():
    run = baird.q_learning(iterations=6_000, every=1_000)
    growth = run.weight_norm[2:] / run.weight_norm[1:-1]
    assert np.all(growth > 10)  # by a constant factor per thousand iterations: without bound
    assert np.all(np.diff(run.bellman_error) > 0)


def test_q_learning_diverges_at_a_tenth_of_the_step_too():
    run = baird.q_learning(iterations=60_000, step_size=0.01, every=10_000)
    assert np.all(run.weight_norm[2:] / run.weight_norm[1:-1] > 10)


def test_sbeed_lowers_the_Bellman_error_at_every_step():
    for plain in (False, True):
        run = baird.sbeed(iterations=1_500, plain=plain)
        assert np.all(np.diff(run.bellman_error) < 0)


def test_plain_steps_arrive_too_but_slowly():
    run = baird.sbeed(iterations=300_000, every=3_000, plain=True)
    assert run.bellman_error[1] > 1e-3 > 1e-5 > run.bellman_error[-1]
    assert np.all(np.diff(run.bellman_error) < 0)


def test_iterations_are_counted_from_the_start():
    np.testing.assert_array_equal(baird.sbeed(iterations=20, every=10).iteration, [0, 10, 20])
