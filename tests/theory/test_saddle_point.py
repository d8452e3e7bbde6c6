"""From the squared error to L_eta: hand numbers on the smallest MDPs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import finite_mdp, two_state
from sbeed.theory import exact
from sbeed.theory.claims.conjugate_form import bulge
from sbeed.theory.claims.data_norm import smallest_ratio
from sbeed.theory.claims.squared_bellman_error import kink, last_ties, smoothed_squared_error, squared_error
from sbeed.theory.claims.variance_cancellation import bootstrap_variance
from sbeed.theory.operators import state_norm

# State 0 pays 1 and goes to 0 or 1 with a coin; the data are in state 0; gamma .5 and V = (0, 4).
# delta is 1 or 3, so E[delta|s,a] = 2, and V(0) = 0.
COIN = finite_mdp([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.0]], mu=[1.0, 0.0], gamma=0.5)
V = jnp.array([0.0, 4.0])
LOG_PI = jnp.zeros((2, 1))


def test_ell_and_its_conjugate():
    assert exact.ell(COIN, V, LOG_PI, 1.0) == 4.0  # 2^2
    # L(nu) = 2 nu * 2 - nu^2 = 4 - (nu - 2)^2
    for nu, expected in ((2.0, 4.0), (1.0, 3.0), (-1.0, -5.0)):
        assert exact.L(COIN, V, LOG_PI, jnp.full((2, 1), nu), 1.0) == expected


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        (0.0, 5.0),  # PCL's surrogate: (1^2 + 3^2) / 2
        (0.5, 4.0),  # less half of E[(delta - 3)^2] = (2^2 + 0^2) / 2
        (1.0, 3.0),  # which is L at nu = 3 - 0: 2 * 3 * 2 - 3^2
    ],
)
def test_the_trade_off_at_rho_3(eta, expected):
    assert exact.L_eta(COIN, V, LOG_PI, jnp.full((2, 1), 3.0), 1.0, eta) == expected


def test_the_variance_that_the_dual_cancels():
    # gamma^2 Var[V(s')] = .25 * 4 = 1: the surrogate's 5 is 4 + 1, and at rho* = 2 L_eta is 4 + (1 - eta).
    assert bootstrap_variance(COIN, V) == 1.0
    rho = jnp.full((2, 1), 2.0)
    assert exact.dual_loss(COIN, V, LOG_PI, rho, 1.0) == 1.0
    assert [float(exact.L_eta(COIN, V, LOG_PI, rho, 1.0, eta)) for eta in (0.0, 0.25, 1.0)] == [5.0, 4.75, 4.0]


def test_without_chance_there_is_nothing_to_cancel():
    assert bootstrap_variance(two_state(), V) == 0.0


@pytest.mark.parametrize("nu", [-1.0, 1.0])
def test_L_bends_up_or_down_in_pi_with_the_sign_of_nu(nu):
    # .9/.1 against .1/.9 in state 0, the same coin in state 1: x = .8^2 / (4 * .09) = 1.7778, log(1 + x) = 1.0216512,
    # weight 1/2, lam .5: the midpoint lies .2554128 above the chord at nu = -1 and as much below it at nu = 1.
    mdp = two_state(noise=0.2)
    one, two = jnp.array([[0.9, 0.1], [0.5, 0.5]]), jnp.array([[0.1, 0.9], [0.5, 0.5]])
    above = bulge(lambda pi: exact.L(mdp, V, jnp.log(pi), jnp.full((2, 2), nu), 0.5), one, two)
    assert above == pytest.approx(-nu * 0.2554128)


def test_the_kinks_of_the_squared_bellman_error():
    # From V = 0 along (0, 1), gamma .9.
    # State 0: stay 1, switch .9 t: a tie at t = 1/.9. T V - V = 1 there; jump 2 * .5 * 1 * (.9 - 0) = .9.
    # State 1: stay .9 t, switch .5: a tie at t = .5/.9. T V - V = .5 - .5556; jump 2 * .5 * -.0556 * .9 = -.05.
    mdp, direction = two_state(), jnp.array([0.0, 1.0])
    ties, slope_change = last_ties(mdp, jnp.zeros(2), direction)
    assert ties == pytest.approx([1 / 0.9, 0.5 / 0.9])
    assert slope_change == pytest.approx([0.9, 0.9])
    hard = jax.vmap(lambda t: kink(lambda t: squared_error(mdp, t * direction), t))(ties)
    assert hard == pytest.approx([0.9, -0.05])
    soft = jax.vmap(lambda t: kink(lambda t: smoothed_squared_error(mdp, t * direction, 0.1), t))(ties)
    assert soft == pytest.approx([0.0, 0.0], abs=1e-9)


def test_at_the_solution_a_tie_makes_no_kink():
    # Two equal actions that lead apart: T V - V = 0 at V*, so the squared error is flat there whatever the slopes are.
    mdp = finite_mdp([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], np.zeros((2, 2)))
    direction = jnp.array([0.0, 1.0])  # V* = 0
    assert kink(lambda t: squared_error(mdp, t * direction), jnp.array(0.0)) == pytest.approx(0.0, abs=1e-12)


def test_the_data_norm_by_hand():
    assert state_norm(COIN, V) == 1.0  # |.5 * 2 - 0|
    # Of a constant c it is (1 - gamma) |c| in any MDP; on a path nothing is smaller relative to ||V||_mu.
    mdp = two_state(noise=0.2, gamma=0.8)  # a uniform pi_b visits both states alike, as mu does
    assert state_norm(mdp, jnp.full(2, -3.0)) == pytest.approx(0.2 * 3)
    assert smallest_ratio(mdp) == pytest.approx(0.2)


def test_off_the_path_the_data_norm_can_be_smaller():
    # State 0 leads to 1, 1 to itself, and mu is almost all in 0: V = (gamma, 1) costs only what state 1 weighs.
    mdp = finite_mdp([[[0, 1]], [[0, 1]]], np.zeros((2, 1)), mu=[0.99, 0.01], gamma=0.9)
    # sqrt(.01) * .1 = .01 against (1 - gamma) ||V||_mu = .1 * sqrt(.99 * .81 + .01) = .0901.
    assert state_norm(mdp, jnp.array([0.9, 1.0])) == pytest.approx(0.01)
    assert smallest_ratio(mdp) < 0.1
