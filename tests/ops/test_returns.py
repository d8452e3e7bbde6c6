"""Windowed compositions against the definition, and their two promises: no digits lost, cost independent of k."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.ops.returns import Affine, compose, compose_to_end, compose_windows


def _steps(length, *, batch=(3,), seed=0):
    k_c, k_g = jax.random.split(jax.random.key(seed))
    return Affine(jax.random.normal(k_c, (*batch, length)), jax.random.uniform(k_g, (*batch, length)))


def _by_definition(steps, k):
    length = steps.c.shape[-1]
    windows = []
    for t in range(length):
        window = Affine(steps.c[..., t], steps.g[..., t])
        for i in range(t + 1, min(t + k, length)):
            window = compose(window, Affine(steps.c[..., i], steps.g[..., i]))
        windows.append(window)
    return Affine(*(jnp.stack(x, axis=-1) for x in zip(*windows)))


@pytest.mark.parametrize(("length", "k"), [(1, 1), (5, 1), (5, 2), (7, 3), (8, 4), (9, 9), (6, 100)])
def test_windows_are_compositions(length, k):
    steps = _steps(length)
    for got, expected in zip(compose_windows(steps, k), _by_definition(steps, k)):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-14)


def test_to_end_is_the_longest_window():
    steps = _steps(11)
    for got, expected in zip(compose_to_end(steps), compose_windows(steps, 11)):
        np.testing.assert_allclose(got, expected, rtol=1e-13)


def test_one_map():
    # 2 + 3 (5 + 7 x) = 17 + 21 x, at x = 1: 38
    both = compose(Affine(jnp.array(2.0), jnp.array(3.0)), Affine(jnp.array(5.0), jnp.array(7.0)))
    assert both(jnp.array(1.0)) == 38


def test_no_digits_are_lost_at_a_small_discount():
    # Prefix sums divided by gamma^t would hold gamma^-2000 ~ 1e91 at gamma .9 and overflow float32 altogether.
    length, gamma, k = 2000, 0.9, 10
    steps = Affine(jnp.ones(length, jnp.float32), jnp.full(length, gamma, jnp.float32))
    expected = (1 - gamma**k) / (1 - gamma)  # a geometric sum
    np.testing.assert_allclose(compose_windows(steps, k).c[: length - k], expected, rtol=1e-6)


def test_a_spike_leaves_no_trace_outside_its_window():
    # A running sum that subtracts what leaves the window keeps 1e8 * eps for ever; composition never subtracts.
    c = jnp.ones(64, jnp.float32).at[40].set(1e8)
    windows = compose_windows(Affine(c, jnp.full(64, 0.5, jnp.float32)), 4)
    assert float(windows.c[0]) == 1.875  # 1 + 1/2 + 1/4 + 1/8


def test_work_does_not_grow_with_k():
    def elements_touched(k):
        """Sum over the program of what each operation writes, loops counted by their length."""
        shape = jax.ShapeDtypeStruct((64, 512), jnp.float32)
        return _work(jax.make_jaxpr(lambda c, g: compose_windows(Affine(c, g), k))(shape, shape).jaxpr)

    assert elements_touched(100) < 1.3 * elements_touched(2)


def _work(jaxpr):
    total = 0
    for equation in jaxpr.eqns:
        inner = [p.jaxpr if hasattr(p, "jaxpr") else p for p in equation.params.values() if hasattr(p, "jaxpr")]
        repeat = equation.params.get("length", 1)
        written = sum(int(np.prod(v.aval.shape)) for v in equation.outvars)
        total += repeat * sum(map(_work, inner)) if inner else written
    return total


def test_gradient_flows():
    steps = _steps(6, batch=())
    loss = lambda c: compose_windows(Affine(c, steps.g), 3).c.sum()
    by_definition = lambda c: _by_definition(Affine(c, steps.g), 3).c.sum()
    np.testing.assert_allclose(jax.grad(loss)(steps.c), jax.grad(by_definition)(steps.c), rtol=1e-12)
