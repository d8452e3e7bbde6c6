"""Policies: densities that integrate to one, draws that follow them, divergences, and the natural gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.models.features import FourierFeatures, Identity
from sbeed.models.nets import MLP
from sbeed.models.normalize import Normalizer
from sbeed.models.policies import (
    Categorical,
    Gaussian,
    LinearCategorical,
    LinearGaussian,
    NoisyMean,
    Normalized,
    TanhGaussian,
)

OBS = jnp.linspace(-1, 1, 3, dtype=jnp.float32)
# All batches have one shape, so that each policy is compiled once for all tests.
MANY = jax.random.normal(jax.random.key(1), (2000, 3), jnp.float32)
SAME = jnp.broadcast_to(OBS, MANY.shape)
ONES = jnp.ones((2000, 2), jnp.float32)


def _normal(seed, *shape):
    return 0.5 * jax.random.normal(jax.random.key(seed), shape, jnp.float32)


def _normalized(policy):
    rows = np.random.default_rng(0).normal([1, 0, -1], [2, 1, 1], (50, 3)).astype(np.float32)
    return Normalized(policy, Normalizer(3).update(rows))


def _linear_gaussian(seed=0):
    return LinearGaussian(FourierFeatures(3, 8, key=jax.random.key(7)), _normal(seed, 9, 2), _normal(seed + 1, 2))


POLICIES = {
    "tanh Gaussian": lambda seed=0: TanhGaussian(MLP((3, 16, 4), key=jax.random.key(seed))),
    "Gaussian": lambda seed=0: Gaussian(MLP((3, 16, 2), key=jax.random.key(seed), activation="tanh"), _normal(seed, 2)),
    "linear Gaussian": _linear_gaussian,
    "affine Gaussian": lambda seed=0: LinearGaussian(Identity(3), _normal(seed, 4, 2), _normal(seed + 1, 2)),
    "noisy mean": lambda seed=0: NoisyMean(POLICIES["Gaussian"](seed), 0.3, 0.15),
    "categorical": lambda seed=0: Categorical(MLP((3, 16, 4), key=jax.random.key(seed))),
    "linear categorical": lambda seed=0: LinearCategorical(
        FourierFeatures(3, 8, key=jax.random.key(7)), _normal(seed, 9, 4)
    ),
    "table": lambda seed=0: LinearCategorical(Identity(3, constant=False), _normal(seed, 3, 4)),
    "normalized tanh Gaussian": lambda seed=0: _normalized(POLICIES["tanh Gaussian"](seed)),
    "normalized categorical": lambda seed=0: _normalized(POLICIES["categorical"](seed)),
}
every_policy = pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
sample, log_prob, mode, kl, explore = (
    eqx.filter_jit(f)
    for f in (
        lambda pi, obs, key: pi.sample(obs, key),
        lambda pi, obs, action: pi.log_prob(obs, action),
        lambda pi, obs: pi.mode(obs),
        lambda pi, other, obs: pi.kl(other, obs),
        lambda pi, obs, key: pi.explore(obs, key),
    )
)


def test_tanh_density_integrates_to_one():
    # Over a in (-1, 1): a = tanh u, da = (1 - a^2) du, on a grid of u that holds all the mass.
    policy = TanhGaussian(MLP((3, 16, 2), key=jax.random.key(0)))
    u = np.linspace(-12, 12, 2000, dtype=np.float32)
    density = np.exp(log_prob(policy, SAME, u[:, None]))
    np.testing.assert_allclose(np.trapezoid(density * (1 - np.tanh(u.astype(np.float64)) ** 2), u), 1, rtol=1e-4)


def test_tanh_density_survives_saturation():
    policy = TanhGaussian(MLP((3, 16, 2), key=jax.random.key(0)))
    far = jnp.array([20.0], jnp.float32)
    log_pi, g = jax.jit(jax.value_and_grad(lambda u: policy.log_prob(OBS, u)))(far)
    assert np.isfinite(log_pi)
    assert np.isfinite(g[0])


def test_gaussian_density_by_hand():
    policy = LinearGaussian(Identity(1), jnp.array([[2.0], [1.0]]), jnp.log(jnp.array([0.5])))
    # mean = 2 * 3 + 1 = 7; (8 - 7) / .5 = 2: -2^2 / 2 - log .5 - log(2 pi) / 2
    expected = -2 - np.log(0.5) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(policy.log_prob(jnp.array([3.0]), jnp.array([8.0])), expected, rtol=1e-6)


@every_policy
def test_a_sample_is_scored_as_it_was_drawn(make):
    policy = make()
    action, log_pi = sample(policy, MANY, jax.random.key(2))
    assert log_pi.shape == (2000,)
    assert log_pi.dtype == jnp.float32
    np.testing.assert_allclose(log_prob(policy, MANY, action), log_pi, rtol=2e-4, atol=2e-4)


@every_policy
def test_the_mode_is_the_likeliest_raw_action(make):
    policy = make()
    best, others = mode(policy, MANY), sample(policy, MANY, jax.random.key(3))[0]
    if best.dtype == jnp.float32:  # of the Gaussian before tanh: with its slope the density has another peak
        np.testing.assert_allclose(best, policy.distribution(MANY).mean, rtol=1e-5, atol=1e-6)
    else:
        assert np.all(log_prob(policy, MANY, best) >= log_prob(policy, MANY, others))


@every_policy
def test_kl_is_the_mean_log_ratio(make):
    pi, other = make(0), make(5)
    action, log_pi = sample(pi, SAME, jax.random.key(4))
    ratio = np.asarray(log_pi - log_prob(other, SAME, action), np.float64)
    error = ratio.std() / np.sqrt(len(ratio))
    assert abs(ratio.mean() - float(kl(pi, other, SAME)[0])) < 4 * error
    np.testing.assert_allclose(kl(pi, pi, MANY), 0, atol=1e-6)
    assert np.all(kl(pi, other, MANY) > 0)


def test_a_small_kl_is_not_rounding():
    pi = _linear_gaussian()
    moved = eqx.tree_at(lambda p: p.log_std, pi, pi.log_std + 1e-3)
    # d = -1e-3 in two dimensions: (exp(2 d) - 1) / 2 - d = d^2 + 2 d^3 / 3 + ...
    np.testing.assert_allclose(kl(pi, moved, SAME)[0], 2 * (1e-6 - 2e-9 / 3), rtol=1e-3)


def test_policies_with_normalisers_of_their_own_see_different_states():
    pi, normalized = POLICIES["Gaussian"](), _normalized(POLICIES["Gaussian"]())
    expected = pi.distribution(MANY).kl(pi.distribution(normalized.normalizer(MANY)))
    np.testing.assert_allclose(kl(pi, normalized, MANY), expected, rtol=1e-4)


@every_policy
def test_exploring_covers_what_the_environment_takes(make):
    policy = make()
    raw = explore(policy, SAME, jax.random.key(0))
    sent = np.asarray(policy.squash(raw))
    if raw.ndim == 1:
        np.testing.assert_allclose(np.bincount(sent) / 2000, 0.25, atol=0.05)
    else:
        assert sent.dtype == np.float32
        assert np.abs(sent).max() <= 1
        np.testing.assert_allclose(sent.std(0), 1 / np.sqrt(3), atol=0.05)  # of a uniform on [-1, 1]


def test_a_table_holds_its_logits():
    weights = jnp.log(jnp.array([[0.2, 0.8], [0.5, 0.5]], jnp.float32))
    table = LinearCategorical(Identity(2, constant=False), weights)
    np.testing.assert_allclose(
        table.log_prob(jnp.eye(2, dtype=jnp.float32), jnp.array([1, 0])), np.log([0.8, 0.5]), rtol=1e-6
    )


def test_only_weights_and_log_std_of_a_linear_policy_are_trained():
    pi = _linear_gaussian()
    g = jax.jit(jax.grad(lambda p: jnp.sum(p.log_prob(MANY, ONES))))(pi)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(g.features))
    assert np.any(g.weights)
    assert np.any(g.log_std)


def test_natural_gradient_inverts_the_hessian_of_kl():
    pi = _linear_gaussian()
    loss = lambda p: jnp.mean(p.log_prob(MANY, ONES))
    g = jax.jit(jax.grad(loss))(pi)
    direction = eqx.filter_jit(LinearGaussian.natural_gradient)(pi, MANY, g, 0.0)
    assert jax.tree.structure(direction) == jax.tree.structure(pi)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(direction.features))

    def mean_kl(weights, log_std):
        moved = eqx.tree_at(lambda p: (p.weights, p.log_std), pi, (weights, log_std))
        return jnp.mean(pi.kl(moved, MANY))

    gradient = jax.grad(mean_kl, argnums=(0, 1))
    at, along = (pi.weights, pi.log_std), (direction.weights, direction.log_std)
    _, product = jax.jit(lambda: jax.jvp(gradient, at, along))()
    np.testing.assert_allclose(product[0], g.weights, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(product[1], g.log_std, rtol=1e-4)


def test_members_of_a_population_are_mapped_over():
    members = [_linear_gaussian(0), _linear_gaussian(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    together = jax.jit(jax.vmap(lambda p: p.log_prob(MANY, ONES)))(stacked)
    for i, member in enumerate(members):
        np.testing.assert_allclose(together[i], log_prob(member, MANY, ONES), rtol=1e-4)
