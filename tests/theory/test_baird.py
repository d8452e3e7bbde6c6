import numpy as np

from sbeed.theory import baird


def test_every_value_has_weights_and_the_star_is_stationary():
    assert np.linalg.matrix_rank(baird.state_features()) == 7
    mdp = baird.star()
    # mu uniform; the seventh state is entered with probability 1/7, each upper one with 6/7 * 1/6 = 1/7.
    np.testing.assert_allclose(np.einsum("s,sa,sat->t", mdp.mu, mdp.pi_b, mdp.P), 1 / 7)


def test_initial_values_by_hand():
    # Upper states: 2 * 1 + 1 = 3; the seventh: 10 + 2 * 1 = 12.
    np.testing.assert_allclose(baird.state_features() @ baird.initial_weights(), [3] * 6 + [12])


def test_first_Bellman_error_of_q_learning_by_hand():
    # Dashed starts from ones, so Q(s, dashed) = 3 everywhere; Q(s, solid) = 3, and 12 at the seventh.
    # max Q = 3 at the upper states and 12 at the seventh. Errors, gamma .99:
    #   dashed: .99 * 3 - 3 = -.03;  solid: .99 * 12 - 3 = 8.88 at the upper states, 11.88 - 12 = -.12 at the seventh.
    expected = 6 / 7 * 0.03**2 + 1 / 7 * (6 / 7 * 8.88**2 + 1 / 7 * 0.12**2)
    np.testing.assert_allclose(baird.q_learning(iterations=1).bellman_error[0], expected)


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
    assert baird.sbeed(iterations=3_000, every=1_000).bellman_error[-1] < 1e-18


def test_iterations_are_counted_from_the_start():
    np.testing.assert_array_equal(baird.sbeed(iterations=20, every=10).iteration, [0, 10, 20])
