"""Features: the kernel they stand for, the median trick, and that nothing trains them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.models.features import FourierFeatures, Identity, median_bandwidth, sine

median = jax.jit(median_bandwidth, static_argnames="most")


def test_sine_is_the_sine():
    x = np.concatenate([np.linspace(-1000, 1000, 100_001), np.linspace(-4, 4, 10_001)]).astype(np.float32)
    got = jax.jit(sine)(x)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, np.sin(x.astype(np.float64)), atol=2e-7)


def test_the_derivative_of_sine_is_the_cosine():
    x = jnp.linspace(-10, 10, 101, dtype=jnp.float32)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.grad(sine)))(x), jnp.cos(x), atol=2e-6)


def test_fourier_features_by_hand():
    features = FourierFeatures(2, 1, key=jax.random.key(0))
    features = eqx.tree_at(
        lambda f: (f.directions, f.phases, f.bandwidth),
        features,
        (jnp.array([[1.0, 2.0]]), jnp.array([0.5]), jnp.array(4.0)),
    )
    # (1 * 3 + 2 * 1) / 4 + .5 = 1.75
    np.testing.assert_allclose(features(jnp.array([3.0, 1.0])), [np.sin(1.75), 1], rtol=1e-6)
    assert features.size == 2


def test_fourier_features_make_the_rbf_kernel():
    features = FourierFeatures(3, 20_000, key=jax.random.key(0))
    features = eqx.tree_at(lambda f: f.bandwidth, features, jnp.float32(1.5))
    x, y = jnp.array([0.3, -1.0, 0.5], jnp.float32), jnp.array([1.0, 0.0, 0.0], jnp.float32)
    phi_x, phi_y = features(x)[:-1], features(y)[:-1]  # without the constant
    kernel = np.exp(-np.sum((x - y) ** 2) / (2 * 1.5**2))
    np.testing.assert_allclose(2 * jnp.mean(phi_x * phi_y), kernel, atol=0.02)  # std of a mean of 20000: 1/sqrt(20000)


def test_nothing_trains_the_features():
    features = FourierFeatures(2, 5, key=jax.random.key(0))
    of_features, of_x = jax.jit(jax.grad(lambda f, x: jnp.sum(f(x) ** 2), argnums=(0, 1)))(
        features, jnp.ones(2, jnp.float32)
    )
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(of_features))
    assert np.any(of_x)  # a critic's gradient in the action passes through


def test_identity_with_and_without_a_constant():
    x = jnp.array([[2.0, 3.0]], jnp.float32)
    np.testing.assert_array_equal(Identity(2)(x), [[2, 3, 1]])
    np.testing.assert_array_equal(Identity(2, constant=False)(x), x)
    assert (Identity(2).size, Identity(2, constant=False).size) == (3, 2)
    assert Identity(2)(x).dtype == jnp.float32


def test_median_of_pairwise_distances_by_hand():
    # Points 0, 1, 10 on a line: distances 1, 9, 10.
    np.testing.assert_allclose(median(jnp.array([[0.0], [1.0], [10.0]])), 9)


def test_median_is_the_median_of_all_pairs_and_of_a_subset_nearly():
    x = np.random.default_rng(0).normal(5, 2, (400, 3)).astype(np.float32)
    distances = np.sqrt(((x[:, None] - x[None]) ** 2).sum(-1))[np.triu_indices(400, 1)]
    np.testing.assert_allclose(median(jnp.asarray(x)), np.median(distances), rtol=1e-5)
    np.testing.assert_allclose(median(jnp.asarray(x), most=100), np.median(distances), rtol=0.1)


def test_points_that_coincide_leave_the_bandwidth_at_one():
    assert median(jnp.zeros((5, 2), jnp.float32)) == 1
