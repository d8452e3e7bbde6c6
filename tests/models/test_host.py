"""Acting on the host: the same policy as on the device, by arrays that travel."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

from sbeed.models.host import HostCategorical
from sbeed.models.normalize import Normalizer
from sbeed.models.policies import Normalized, TanhGaussian
from tests.models.test_policies import MANY, OBS, POLICIES, every_policy, mode

ONE = np.asarray(OBS)


@every_policy
def test_host_and_device_agree(make):
    policy = make()
    host, batch = policy.on_host(), np.asarray(MANY)
    expected = np.asarray(mode(policy, MANY))
    raw = host.mode(batch)
    np.testing.assert_allclose(raw, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(host.squash(raw), policy.squash(expected), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose([host.mode(obs) for obs in batch[:5]], expected[:5], rtol=1e-5, atol=1e-5)


@every_policy
def test_host_draws_follow_the_density(make):
    policy, rng = make(), np.random.default_rng(0)
    host, distribution = policy.on_host(), policy.distribution(OBS)
    draws = np.array([host.draw(ONE, rng) for _ in range(2000)])
    if isinstance(host, HostCategorical):
        np.testing.assert_allclose(np.bincount(draws, minlength=4) / 2000, np.exp(distribution.log_probs), atol=0.05)
    else:
        std = np.exp(distribution.log_std)
        assert draws.dtype == np.float32
        assert np.all(np.abs(draws.mean(0) - distribution.mean) < 4 * std / np.sqrt(2000))
        np.testing.assert_allclose(draws.std(0), std, rtol=0.07)


@every_policy
def test_a_batch_is_drawn_independently(make):
    host = make().on_host()
    draws = host.draw(np.broadcast_to(ONE, (4, 50, 3)), np.random.default_rng(0))
    assert draws.shape[:2] == (4, 50)
    assert len(np.unique(draws)) > 1


@every_policy
def test_exploring_covers_what_the_environment_takes(make):
    host, rng = make().on_host(), np.random.default_rng(0)
    sent = host.squash(np.array([host.explore(rng) for _ in range(2000)]))
    if isinstance(host, HostCategorical):
        np.testing.assert_allclose(np.bincount(sent) / 2000, 0.25, atol=0.05)
    else:
        assert sent.dtype == np.float32
        assert np.abs(sent).max() <= 1
        np.testing.assert_allclose(sent.std(0), 1 / np.sqrt(3), atol=0.05)  # of a uniform on [-1, 1]


@every_policy
def test_it_travels(make):
    host = make().on_host()
    copy = pickle.loads(pickle.dumps(host))
    np.testing.assert_array_equal(copy.mode(ONE), host.mode(ONE))
    np.testing.assert_array_equal(copy.draw(ONE, np.random.default_rng(1)), host.draw(ONE, np.random.default_rng(1)))


def test_whoever_only_acts_does_not_load_jax(tmp_path):
    path = tmp_path / "policy.pickle"
    path.write_bytes(pickle.dumps(POLICIES["normalized tanh Gaussian"]().on_host()))
    program = (
        "import pickle, sys, numpy; host = pickle.load(open(sys.argv[1], 'rb')); "
        "host.mode(numpy.zeros(3, 'f4')); assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, path], check=True)


@pytest.mark.parametrize("make", [POLICIES["tanh Gaussian"], POLICIES["linear Gaussian"]])
def test_parameters_may_be_numpy_arrays(make):
    policy = make()
    np.testing.assert_allclose(
        jax.tree.map(np.asarray, policy).on_host().mode(ONE), policy.on_host().mode(ONE), rtol=1e-6, atol=1e-7
    )


def test_a_normaliser_without_data_changes_nothing():
    policy = POLICIES["tanh Gaussian"]()
    assert isinstance(policy, TanhGaussian)
    fresh = Normalized(policy, Normalizer(3)).on_host()
    np.testing.assert_array_equal(fresh.mode(100 * ONE), policy.on_host().mode(100 * ONE))


@every_policy
def test_unsquash_undoes_squash(make):
    host, rng = make().on_host(), np.random.default_rng(0)
    raw = host.explore(rng)
    np.testing.assert_allclose(host.unsquash(host.squash(raw)), raw, rtol=1e-4)
    edge = host.unsquash(np.ones_like(raw))
    assert np.all(np.isfinite(edge))
    np.testing.assert_allclose(host.squash(edge), 1, rtol=1e-5)
