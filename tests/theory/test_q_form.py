"""The loss in Q-coordinates: hand numbers, and which gradients are gradients."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.q_sbeed.equations import Q_of, V_of, least_share, log_pi_of
from sbeed.envs.tabular import finite_mdp, telling_actions, two_state
from sbeed.theory import q_form, solve
from sbeed.theory.claim import central_differences
from sbeed.theory.claims import q_coordinates, q_descent, q_envelope, q_gradient, q_path_consistency, q_same_optimum
from sbeed.theory.claims.q_gradient import Problem
from sbeed.theory.enumerate import given_actions, paths
from sbeed.theory.operators import soft_optimum
from sbeed.theory.parametric import DualClass, nu_moves_rho

# One action: V_Q = Q. State 0 pays 1 and goes to 0 or 1 with a coin; the data are in state 0; gamma .5 and Q = (0, 4).
# delta is 1 or 3, so td = delta - Q(0) is 1 or 3 too, nu* = 2.
COIN = finite_mdp([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], mu=[1.0, 0.0], gamma=0.5)
COIN_Q = jnp.array([[0.0], [4.0]])


def of_coin(eta):
    return Problem(COIN, jnp.eye(2).reshape(2, 1, 2), 1.0, eta), COIN_Q[:, 0]


def test_the_pair_of_a_Q_by_hand():
    # exp(Q / lam) = 1 and 3: V = lam log 4, pi = (1/4, 3/4). With pi_b = (3/4, 1/4) both weigh 3/4: V = lam log 1.5.
    Q, prior = jnp.array([[0.0, 0.5 * np.log(3)]]), jnp.log(jnp.array([[0.75, 0.25]]))
    np.testing.assert_allclose(V_of(Q, lam=0.5), [0.5 * np.log(4)], rtol=1e-12)
    np.testing.assert_allclose(jnp.exp(log_pi_of(Q, lam=0.5)), [[0.25, 0.75]], rtol=1e-12)
    np.testing.assert_allclose(V_of(Q, lam=0.5, prior=prior), [0.5 * np.log(1.5)], rtol=1e-12)
    np.testing.assert_allclose(jnp.exp(log_pi_of(Q, lam=0.5, prior=prior)), [[0.5, 0.5]], rtol=1e-12)


def test_what_does_not_come_back():
    # Two actions at .6: V comes back raised by lam log 1.2.
    np.testing.assert_allclose(q_coordinates.counterexample().lhs, 0.5 * np.log(1.2), rtol=1e-12)
    # A Q written with one lam and read with another is another pair: a learner that moves lam moves V and pi.
    log_pi = jnp.log(jnp.array([[0.2, 0.8]]))
    Q = Q_of(jnp.zeros(1), log_pi, lam=0.5)
    np.testing.assert_allclose(V_of(Q, lam=0.25), [0.25 * np.log(0.2**2 + 0.8**2)], rtol=1e-12)


def test_objectives_by_hand():
    # As for V in test_saddle_point: ell = 2^2; at rho 3, PCL's 5 less eta E[(delta - 3)^2] = 2 eta.
    assert q_form.ell(COIN, COIN_Q, 1.0) == 4.0
    for eta, expected in ((0.0, 5.0), (0.5, 4.0), (1.0, 3.0)):
        assert q_form.L_eta(COIN, COIN_Q, jnp.full((2, 1), 3.0), 1.0, eta) == expected
        assert q_gradient.maximised(COIN, COIN_Q, 1.0, eta) == 4 + (1 - eta)  # Var[gamma V(s')] = .25 * 4


@pytest.mark.parametrize(
    ("eta", "nu", "expected"),
    [
        # -2 E[td] = -4 for Q(0). Backward, 2 gamma = 1: each state is reached half the time.
        (0.0, 2.0, [-4 + 0.5 * 1, 0.5 * 3]),  # td itself
        (1.0, 2.0, [-4 + 0.5 * 2, 0.5 * 2]),  # nu: the gradient of (1 - .75 Q(0) + .25 Q(1))^2 = 2^2
        (1.0, 0.0, [-4, 0]),  # without a dual nothing is left of it: the semi-gradient
        (0.5, 2.0, [-4 + 0.5 * 1.5, 0.5 * 2.5]),
    ],
)
def test_gradient_by_hand(eta, nu, expected):
    problem, w = of_coin(eta)
    np.testing.assert_allclose(problem.theorem(w, jnp.full((2, 1), nu)), expected, rtol=1e-12)


def test_the_greedy_action_s_gradient_is_off_by_the_other_s_share():
    # Q = (1, 0) and (0, .5) at lam .5: pi_Q of the worse actions is 1 / (1 + e^2) = .1192 and 1 / (1 + e) = .2689.
    np.testing.assert_allclose(q_envelope.counterexample().lhs, 1 / (1 + np.e), rtol=1e-12)


def test_a_dual_that_is_not_fitted_is_no_gradient_of_the_maximum():
    problem, w = q_gradient.noisy_problem()
    of_maximum = jax.jit(jax.grad(problem.maximised))(w)
    nu = problem.delta_bar(w) - problem.phi @ w
    np.testing.assert_allclose(problem.theorem(w, nu), of_maximum, rtol=1e-12)
    assert jnp.abs(problem.theorem(w, nu + 1.0) - of_maximum).max() > 0.1


@pytest.mark.parametrize(
    ("of_nu", "ridge", "nu_held", "is_gradient"),
    [
        ("every pair", 0.0, False, True),
        ("Q's features", 0.0, False, True),
        ("Q's features", 0.5, False, False),  # the learner's: rho held, and nu shrunk
        ("Q's features", 0.5, True, True),
        ("another feature", 0.0, False, False),
        ("another feature", 0.0, True, True),
        ("no feature", 0.0, False, False),  # the semi-gradient
    ],
)
def test_which_steps_go_down_some_function(of_nu, ridge, nu_held, is_gradient):
    # A gradient's Jacobian is a Hessian: symmetric.
    problem, w = q_gradient.noisy_problem()
    few = jnp.array([[[1.0], [0.0]], [[1.0], [-1.0]]])
    psi = {"every pair": jnp.eye(4).reshape(2, 2, 4), "Q's features": problem.phi, "another feature": few}.get(of_nu)

    def direction(w):
        nu = jnp.zeros((2, 2))
        if psi is not None:
            nu = psi @ DualClass(psi, ridge).fitted(problem.mdp, problem.delta_bar(w) - problem.phi @ w)
        g = problem.theorem(w, nu)
        return g + nu_moves_rho(problem, w, nu) if nu_held else g

    J = jax.jit(jax.jacobian(direction))(w)
    asymmetry = jnp.abs(J - J.T).max() / jnp.abs(J).max()
    assert asymmetry < 1e-10 if is_gradient else asymmetry > 0.01


@pytest.mark.parametrize("kappa", [0.0, 0.3, 1.0])
def test_at_eta_1_kappa_and_a_smaller_nu_are_the_same(kappa):
    problem, w = q_gradient.noisy_problem()
    Q, nu = problem.phi @ w, jnp.array([[1.0, -2.0], [0.5, 3.0]])
    with_share = jax.grad(problem.L_eta)(w, Q + nu, kappa=kappa)
    np.testing.assert_allclose(with_share, problem.theorem(w, kappa * nu), rtol=1e-10)
    # And so is a ridge where every direction of the features weighs the same: nu / (1 + ridge).
    psi = jnp.eye(4).reshape(2, 2, 4) / jnp.sqrt(problem.mdp.mu[:, None] * problem.mdp.pi_b)[..., None]
    goal = problem.delta_bar(w) - Q
    np.testing.assert_allclose(psi @ DualClass(psi, 3.0).fitted(problem.mdp, goal), goal / 4, rtol=1e-10)


def test_a_return_of_other_actions_is_biased_and_the_sum_of_td_is_not():
    # telling_actions at lam .1, pi* uniform. From state 0 the second action is pi_b's, .9 and .1, with entropy .325083:
    # its own two-step return is off by gamma lam (.325083 - log 2), one without any entropy by -gamma lam log 2.
    mdp, lam = telling_actions(), 0.1

    @jax.jit
    def means_from_0():
        V, log_pi = soft_optimum(mdp, lam)
        Q, p = Q_of(V, log_pi, lam=lam), paths(mdp, 2)
        plain = p.r[:, 0] + mdp.gamma * p.r[:, 1] + mdp.gamma**2 * V[p.s[:, 2]] - Q[p.s[:, 0], p.a[:, 0]]
        of_td = q_form.path_errors(mdp, p, Q, lam, 1.0, 2)
        return [given_actions(mdp, 2, 1, x, p.weight)[0] for x in (plain, of_td)]

    plain, of_td = means_from_0()
    np.testing.assert_allclose(plain, -0.09 * np.log(2), rtol=1e-9)
    np.testing.assert_allclose(of_td, 0.0, atol=1e-12)
    claim = jax.jit(q_path_consistency.counterexample)()
    np.testing.assert_allclose(claim.lhs, 0.09 * (np.log(2) - 0.325083), rtol=1e-5)


def test_a_policy_with_a_memory_chooses_something():
    mdp = telling_actions()
    p = paths(mdp, 3)
    chosen = jax.jit(lambda key: q_path_consistency.by_history(mdp, key))(jax.random.key(0))
    of_start = jax.ops.segment_sum(chosen * p.open_loop, p.s[:, 0], 3)
    np.testing.assert_allclose(of_start, 1.0, rtol=1e-12)
    # Two pasts that end in the same state are treated differently.
    first, second = (chosen.reshape(3, 2, 3, 2, 3, 2, 3)[0, a, 1, :, 0, 0, 0] for a in (0, 1))
    assert jnp.abs(first / first.sum() - second / second.sum()).max() > 0.01


def test_without_the_dual_both_forms_end_at_the_same_wrong_point():
    mdp, lam = two_state(noise=0.5), 0.1
    found = jax.jit(lambda: q_same_optimum.minimiser(mdp, jnp.zeros((2, 2)), lam, 0.0))()
    pcl = solve.algorithm_1(mdp, lam, iterations=3_000, eta=0.0)
    np.testing.assert_allclose(V_of(found, lam=lam), pcl.V, atol=1e-7)
    np.testing.assert_allclose(jnp.exp(log_pi_of(found, lam=lam)), jnp.exp(pcl.log_pi), atol=1e-7)
    assert jnp.abs(pcl.V - soft_optimum(mdp, lam).V).max() > 0.1


def test_central_differences_of_an_array():
    # x y^2 and x at (2, 3): derivatives (9, 12) and (1, 0).
    f = lambda x: jnp.array([x[0] * x[1] ** 2, x[0]])
    np.testing.assert_allclose(central_differences(f, jnp.array([2.0, 3.0])), [[9, 12], [1, 0]], atol=1e-8)


def test_the_least_share_by_hand():
    # f = (1, 0), b = (-2, 0): g points the other way; with c = 1/2 nothing is left, above it the step is along g.
    share = lambda f, b, cosine: float(q_descent.share(jnp.array(f), jnp.array(b), cosine))
    np.testing.assert_allclose(share([1.0, 0.0], [-2.0, 0.0], 0.5), 0.5, rtol=1e-12)
    # f = (1, 0), b = (-1, 1), g = (0, 1): f + c b = (1 - c, c) is 45 degrees from g at c = 1/2, 60 at tan 30 = .366.
    np.testing.assert_allclose(share([1.0, 0.0], [-1.0, 1.0], np.sqrt(0.5)), 0.5, rtol=1e-12)
    np.testing.assert_allclose(share([1.0, 0.0], [-1.0, 1.0], 0.5), 1 / (1 + np.sqrt(3)), rtol=1e-12)
    # b = -.9 f slows f down and turns nothing: none of it is needed. All of it is for the gradient itself.
    assert share([1.0, 2.0], [-0.9, -1.8], 0.99) == 0
    assert share([1.0, 0.0], [-1.0, 1.0], 1.0) == 1
    assert float(least_share(*jnp.zeros(3), cosine=0.5)) == 0  # before there is a gradient


def test_on_baird_s_star_the_least_share_converges_where_the_semi_gradient_diverges():
    problem, start = q_descent.star_problem()

    @partial(jax.jit, static_argnums=(0, 1))
    def objective(share, steps):
        def step(_, w):
            f, b = q_descent.halves(problem, w)
            return w - 0.05 * (f + share(f, b) * b)

        return problem.maximised(jax.lax.fori_loop(0, steps, step, start))

    semi, whole, least = (lambda f, b: 0.0), (lambda f, b: 1.0), (lambda f, b: q_descent.share(f, b, 0.5))
    assert objective(semi, 1_000) > 1_000 * problem.maximised(start)
    assert objective(least, 1_000) < 1.2e-4 < 8e-4 < objective(whole, 1_000)
