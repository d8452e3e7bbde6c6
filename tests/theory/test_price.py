"""The price of a distance: by hand, what bounds it, and the table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed import cli
from sbeed.envs.tabular import equal_actions, garnet
from sbeed.theory import price
from sbeed.theory.operators import soft_optimum
from sbeed.theory.price import MOST, Price, Setting, curvatures, step, steps_needed
from sbeed.theory.solve import Point, algorithm_1, euclidean, kl_simplex, residual_norm

LAM = 0.5


@pytest.mark.parametrize("distance", price.DISTANCES.values(), ids=lambda distance: distance.__name__)
def test_a_step_is_algorithm_1_s(distance):
    mdp, z = garnet(jax.random.key(0)), Point(jnp.arange(6.0), jnp.sin(jnp.arange(18.0)).reshape(6, 3))
    one = algorithm_1(mdp, LAM, iterations=1, step_size=0.1, start=z, distance=distance)
    two = step(mdp, LAM, distance, 0.1)(z)
    for a, b in zip((one.V, one.log_pi), (two.V, two.log_pi)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("distance", "of_V", "of_pi"),
    [
        # One state, two equal actions, gamma .9: e = -.1 V - lam log pi(a), and both actions weigh a half. ell bends by
        # 2 * .01 along V and by 2 lam^2 / 2 along logits that sum to 0; KL bends by 2 where these do by 1 / 2.
        (euclidean, 0.02, 0.25),
        (kl_simplex, 0.02, 0.5),
        (residual_norm, 2.0, 2.0),
    ],
)
def test_curvatures_and_steps_of_one_state_by_hand(distance, of_V, of_pi):
    mdp = equal_actions(gamma=0.9)
    found = curvatures(mdp, LAM, distance)
    np.testing.assert_allclose(found, [of_V, of_pi], rtol=1e-12)
    # From V = 0 the uniform pi stays, and V's error, .5 log 2 / .1 = 3.47, shrinks by 1 - .02 / L: 98, 200 or 1 steps.
    shrink = 1 - of_V / found[-1]
    expected = np.ceil(np.log(1e-3 / (5 * np.log(2))) / np.log(shrink)) if shrink > 1e-9 else 1
    assert steps_needed(mdp, LAM, distance, 1 / found[-1]) == expected


def test_what_bounds_the_curvature():
    for i in range(3):
        mdp = garnet(jax.random.key(i))
        # (gamma E[V(s')] - V - lam log pi)^2 is at most twice its two parts' squares, and bends by twice that.
        assert curvatures(mdp, LAM, residual_norm)[-1] <= 4
        pi = jnp.exp(soft_optimum(mdp, LAM).log_pi)
        rarest = jnp.max(2 * LAM**2 * mdp.mu[:, None] * mdp.pi_b * (1 - pi) / pi)
        assert curvatures(mdp, LAM, kl_simplex)[-1] >= rarest


def test_without_p_it_takes_tens_of_times_as_many_steps():
    mdp, needed = garnet(jax.random.key(0)), {}
    for distance in (residual_norm, euclidean, kl_simplex):
        found = curvatures(mdp, LAM, distance)
        needed[distance] = int(steps_needed(mdp, LAM, distance, 1 / found[-1]))
        # An error of a few falls to .001 as (1 - m / L)^n does: n is some 5 to 10 times L / m.
        assert 3 < needed[distance] * found[0] / found[-1] < 12
    assert 20 * needed[residual_norm] < min(needed[euclidean], needed[kl_simplex])


def test_steps_that_do_not_suffice_are_told():
    mdp = garnet(jax.random.key(0))
    longest = 2 / curvatures(mdp, LAM, kl_simplex)[-1]
    assert steps_needed(mdp, LAM, euclidean, 1.0, 100) == 101
    assert steps_needed(mdp, LAM, euclidean, 1e3, 100) == 101  # overflows
    # Steps of 2 / L and more do not settle at the solution, which they start from here.
    best = soft_optimum(mdp, LAM)
    off = Point(best.V, best.log_pi + 1e-6 * jnp.sin(jnp.arange(18.0)).reshape(6, 3))
    for size, settles in ((0.9 * longest, True), (1.1 * longest, False)):
        end = algorithm_1(mdp, LAM, iterations=2_000, step_size=size, start=off, distance=kl_simplex)
        assert bool(jnp.abs(end.log_pi - best.log_pi).max() < 1e-6) == settles


def test_a_cell_has_the_median_and_the_spread():
    assert str(Price(np.array([1.0, 24.6, 3e6]), np.array([3, 1_234, MOST + 1]))) == "1,234 (3 to > 300,000); 25"
    assert str(Price(np.full(3, 2.44e6), np.full(3, MOST + 1))) == "> 300,000; 2.4e+06"


def test_the_command_prints_a_table(capsys, monkeypatch):
    monkeypatch.setattr(price, "SETTINGS", (Setting(6, 3, 0.5, 0.5),))
    monkeypatch.setattr(price, "DISTANCES", {"Euclidean": euclidean})
    with pytest.raises(SystemExit) as stop:
        cli.main(["theory", "--price"])
    assert stop.value.code == 0
    header, rule, row = capsys.readouterr().out.splitlines()
    assert header == "| garnets | Euclidean |"
    assert rule == "|---|---|"
    assert row.startswith("| 6 states, 3 actions, gamma 0.5, lam 0.5 | ")


def test_the_price_goes_with_the_seed_alone(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["theory", "--price", "--only", "contraction"])
    assert stop.value.code == 2
    assert "--price: goes with no other flag than --seed" in capsys.readouterr().err
