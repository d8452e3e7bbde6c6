import numpy as np
import pytest

from sbeed.data.dataset import from_arrays
from sbeed.data.mixing import autocorrelation, integrated_time, mixing


def _ar(phi, T, seed=0):
    """x_t = phi x_{t-1} + noise, whose rho_l is phi^l and whose tau is (1 + phi) / (1 - phi)."""
    rng, x = np.random.default_rng(seed), np.zeros(T)
    for t in range(1, T):
        x[t] = phi * x[t - 1] + rng.standard_normal()
    return x


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_tau_of_an_autoregressive_path(phi):
    assert integrated_time(_ar(phi, 50_000)) == pytest.approx((1 + phi) / (1 - phi), rel=0.25)  # three standard errors


def test_autocorrelation_by_hand():
    # Centred: -1, 1, -1, 1; sums of products 4, -3, 2, -1.
    np.testing.assert_allclose(autocorrelation(np.array([0.0, 2.0, 0.0, 2.0])), [1, -0.75, 0.5, -0.25], atol=1e-12)
    assert integrated_time(np.ones(100)) == 1


def test_the_slowest_coordinate_tells_what_a_path_is_worth():
    T = 20_001
    obs = np.stack([_ar(0.0, T), _ar(0.9, T, seed=1)], axis=1).astype(np.float32)
    last = np.arange(T - 1) == T - 2
    found = mixing(
        from_arrays(
            {
                **{"obs": obs[:-1], "action": np.zeros((T - 1, 1)), "reward": obs[1:, 0]},
                **{"next_obs": obs[1:], "terminated": np.zeros(T - 1), "last": last},
            }
        )
    )
    assert found.slowest == "obs[1]"
    assert found.resolved
    assert found.effective == pytest.approx(20_000 / 19, rel=0.15)
    assert found.rate == pytest.approx(found.effective**-0.5)
