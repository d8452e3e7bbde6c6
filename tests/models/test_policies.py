"""Policies: densities that integrate to one, draws that follow them, and the host doing what the device does."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.models.nets import MLP
from sbeed.models.policies import Categorical, TanhGaussian, random_action
from sbeed.types import EnvSpec

OBS = np.linspace(-1, 1, 3, dtype=np.float32)


def _tanh_gaussian(dimensions=1):
    return TanhGaussian(MLP((3, 16, 2 * dimensions), key=jax.random.key(0)))


def _categorical():
    return Categorical(MLP((3, 16, 4), key=jax.random.key(0)))


def test_tanh_density_integrates_to_one():
    # Over a in (-1, 1): a = tanh u, da = (1 - a^2) du, on a grid of u that holds all the mass.
    u = jnp.linspace(-12, 12, 200_001)[:, None]
    density = jnp.exp(_tanh_gaussian().log_prob(jnp.broadcast_to(OBS, (len(u), 3)), u))
    mass = jnp.trapezoid(density * (1 - jnp.tanh(u[:, 0]) ** 2), u[:, 0])
    np.testing.assert_allclose(mass, 1, rtol=1e-5)


def test_tanh_density_survives_saturation():
    policy = _tanh_gaussian()
    log_pi = policy.log_prob(jnp.asarray(OBS), jnp.array([20.0], jnp.float32))
    assert jnp.isfinite(log_pi)
    assert jnp.isfinite(jax.grad(lambda u: policy.log_prob(jnp.asarray(OBS), u))(jnp.array([20.0], jnp.float32)))[0]


@pytest.mark.parametrize("make", [lambda: _tanh_gaussian(2), _categorical])
def test_a_sample_is_scored_as_it_was_drawn(make):
    policy = make()
    obs = jax.random.normal(jax.random.key(1), (50, 3), jnp.float32)
    action, log_pi = policy.sample(obs, jax.random.key(2))
    np.testing.assert_allclose(policy.log_prob(obs, action), log_pi, rtol=2e-4, atol=2e-4)


def _on_host(policy):
    return jax.tree.map(np.asarray, policy)


@pytest.mark.parametrize("make", [lambda: _tanh_gaussian(2), _categorical])
def test_host_and_device_agree_on_the_mode(make):
    policy = make()
    np.testing.assert_allclose(_on_host(policy).mode(OBS, np), policy.mode(jnp.asarray(OBS)), rtol=1e-5, atol=1e-6)


def test_host_draws_follow_the_density():
    policy, rng = _tanh_gaussian(), np.random.default_rng(0)
    mean, log_std = policy.distribution(jnp.asarray(OBS))
    draws = np.array([_on_host(policy).draw(OBS, rng) for _ in range(4000)])
    std = float(jnp.exp(log_std)[0])
    assert abs(draws.mean() - float(mean[0])) < 4 * std / np.sqrt(4000)
    assert abs(draws.std() / std - 1) < 0.05
    assert draws.dtype == np.float32


def test_host_categorical_follows_its_probabilities():
    policy, rng = _categorical(), np.random.default_rng(0)
    frequency = np.bincount([_on_host(policy).draw(OBS, rng) for _ in range(4000)], minlength=4) / 4000
    np.testing.assert_allclose(frequency, jnp.exp(policy.log_probs(jnp.asarray(OBS))), atol=0.04)


def test_random_actions_fill_the_box():
    box = EnvSpec("box", 3, "box", 2, None)
    draws = np.tanh([random_action(box, np.random.default_rng(i)) for i in range(500)])
    assert np.abs(draws).max() < 1
    np.testing.assert_allclose(draws.std(0), 1 / np.sqrt(3), atol=0.05)  # of a uniform on [-1, 1]
    die = EnvSpec("die", 3, "discrete", 4, None)
    assert {random_action(die, np.random.default_rng(i)) for i in range(100)} == {0, 1, 2, 3}


def test_layer_norm_ignores_the_scale_of_its_input():
    net = MLP((3, 16, 1), key=jax.random.key(0), layer_norm=True)
    net = eqx.tree_at(lambda n: n.biases, net, [jnp.zeros_like(b) for b in net.biases])
    x = jax.random.normal(jax.random.key(1), (5, 3), jnp.float32)
    np.testing.assert_allclose(net(x), net(10 * x), rtol=1e-3)


def test_last_scale_zero_starts_from_the_zero_function():
    net = MLP((3, 8, 2), key=jax.random.key(0), last_scale=0.0)
    np.testing.assert_array_equal(net(jnp.ones((4, 3))), 0)
