import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.ops import schedules

J = jnp.arange(1, 1001)


def test_constant():
    np.testing.assert_array_equal(schedules.constant(0.3)(J), 0.3)


def test_inverse_is_one_over_j():
    np.testing.assert_allclose(schedules.inverse(2.0)(J), 2.0 / J)
    np.testing.assert_allclose(schedules.inverse(2.0, delay=100.0)(101), 1.0)


def test_random_iterate_takes_the_smaller():
    # 1/K = 1/4 against D' / (sigma sqrt N) = 1 / (2 * 10) = 1/20
    step = schedules.random_iterate(smoothness=4.0, noise=2.0, distance=1.0, iterations=100)
    np.testing.assert_allclose(step(J), 0.05)
    noiseless = schedules.random_iterate(smoothness=4.0, noise=0.0, distance=1.0, iterations=100)
    np.testing.assert_allclose(noiseless(1), 0.25)


def test_two_time_scales_separate():
    primal, dual = schedules.two_time_scales(1.0, 1.0)
    ratio = primal(J) / dual(J)
    assert (jnp.diff(ratio) < 0).all()
    np.testing.assert_allclose(ratio[-1], 1000**-0.3)


@pytest.mark.parametrize("powers", [(0.6, 0.9), (0.9, 0.5), (1.1, 0.6), (0.7, 0.7)])
def test_two_time_scales_refuses_powers_without_a_theorem(powers):
    with pytest.raises(ValueError, match="1/2 < dual < primal <= 1"):
        schedules.two_time_scales(1.0, 1.0, primal_power=powers[0], dual_power=powers[1])
