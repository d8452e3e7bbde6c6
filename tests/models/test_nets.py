"""Networks: what the options do, and where the features are."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.models import nets
from sbeed.models.nets import MLP


def test_two_layers_by_hand():
    net = MLP((1, 2, 1), key=jax.random.key(0))
    net = eqx.tree_at(
        lambda n: (n.weights, n.biases),
        net,
        ([jnp.array([[1.0, -1.0]]), jnp.array([[2.0], [3.0]])], [jnp.array([0.0, 1.0]), jnp.array([0.5])]),
    )
    # x = 2: relu(2, -2 + 1) = (2, 0), and 2 * 2 + 3 * 0 + .5.   x = -1: relu(-1, 1 + 1) = (0, 2), and 3 * 2 + .5
    np.testing.assert_allclose(net(jnp.array([[2.0], [-1.0]])), [[4.5], [6.5]])
    np.testing.assert_allclose(net.hidden(jnp.array([[2.0], [-1.0]])), [[2, 0], [0, 2]])


def test_layer_norm_ignores_the_scale_of_its_input():
    net = MLP((3, 16, 1), key=jax.random.key(0), layer_norm=True)
    net = eqx.tree_at(lambda n: n.biases, net, [jnp.zeros_like(b) for b in net.biases])
    x = jax.random.normal(jax.random.key(1), (5, 3), jnp.float32)
    np.testing.assert_allclose(net(10 * x), net(100 * x), rtol=1e-3)  # the epsilon of the division counts below that


def test_last_scale_zero_starts_from_the_zero_function():
    net = MLP((3, 8, 2), key=jax.random.key(0), last_scale=0.0)
    np.testing.assert_array_equal(net(jnp.ones((4, 3))), 0)


def test_weights_begin_uniform_with_a_bound_of_their_own_layer_and_no_two_alike():
    net = MLP((100, 50, 25), key=jax.random.key(0), last_scale=0.1)
    for W, b, bound in zip(net.weights, net.biases, (0.1, 0.1 * 50**-0.5)):
        for some in (W, b):
            assert 0.9 * bound < np.abs(some).max() < bound
            assert len(np.unique(some)) == some.size
        np.testing.assert_allclose(W.std(), bound / 3**0.5, rtol=0.05)


@pytest.mark.parametrize("rows", [7, nets.TALL])
def test_a_products_derivatives_are_the_plain_products(rows):
    k_x, k_W, k_g, k_d = jax.random.split(jax.random.key(0), 4)
    x, g = jax.random.normal(k_x, (rows, 5)), jax.random.normal(k_g, (rows, 3))
    W, d = jax.random.normal(k_W, (5, 3)), jax.random.normal(k_d, (5, 3))

    def gradients(product):
        def loss(x, W):
            return jnp.sum(g * jnp.tanh(product(x, W)))

        return jax.grad(loss, (0, 1))(x, W), jax.jvp(lambda W: jax.grad(loss, 1)(x, W), (W,), (d,))[1]

    for ours, plain in zip(
        *(jax.tree.leaves(jax.jit(gradients, static_argnums=0)(f)) for f in (nets.product, jnp.matmul))
    ):
        np.testing.assert_allclose(ours, plain, rtol=1e-9)
