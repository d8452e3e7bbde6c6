"""The equations: by hand, at their limits, at episode ends, and under jit and vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.sbeed import equations as eq

GAMMA, LAM = 0.9, 0.5


def _segment(length=8, batch=(4,), seed=0):
    keys = jax.random.split(jax.random.key(seed), 5)
    draw = lambda k: jax.random.normal(k, (*batch, length))
    last = jax.random.bernoulli(keys[3], 0.2, (*batch, length))
    terminated = last & jax.random.bernoulli(keys[4], 0.5, (*batch, length))
    return draw(keys[0]), draw(keys[1]), draw(keys[2]), terminated, last


def _k_step_by_definition(r, log_pi, v_next, terminated, last, k):
    """One path, a plain loop over the paper's sum."""
    length = len(r)
    out = []
    for t in range(length):
        total, discount = 0.0, 1.0
        for i in range(t, min(t + k, length)):
            total += discount * (r[i] - LAM * log_pi[i])
            discount *= GAMMA
            if last[i]:
                break
        out.append(total + discount * (0.0 if terminated[i] else v_next[i]))
    return np.array(out)


def _trace_by_definition(r, log_pi, v_next, terminated, last, trace):
    length = len(r)
    out = []
    for t in range(length):
        end = next((i for i in range(t, length) if last[i]), length - 1)
        longest = end - t + 1
        targets = [_k_step_by_definition(r, log_pi, v_next, terminated, last, k)[t] for k in range(1, longest + 1)]
        weights = [(1 - trace) * trace ** (k - 1) for k in range(1, longest)] + [trace ** (longest - 1)]
        assert np.isclose(sum(weights), 1)
        out.append(np.dot(weights, targets))
    return np.array(out)


def test_one_step_by_hand():
    # 1 - .5 * (-2) + .9 * 10 = 11; terminated: 2
    args = jnp.array([1.0, 1.0]), jnp.array([-2.0, -2.0]), jnp.array([10.0, 10.0])
    delta = eq.delta_one_step(*args, jnp.array([False, True]), gamma=GAMMA, lam=LAM)
    np.testing.assert_allclose(delta, [11.0, 2.0])
    np.testing.assert_allclose(eq.delta_one_step(*args, gamma=GAMMA, lam=LAM), 11.0)


def test_two_steps_by_hand():
    # t = 0: 1 + .9 * 2 + .81 * 30 = 27.1;  t = 1: 2 + .9 * 3 + .81 * 40 = 37.1;  t = 2: 3 + .9 * 40 = 39
    r, v_next = jnp.array([1.0, 2.0, 3.0]), jnp.array([20.0, 30.0, 40.0])
    no = jnp.zeros(3, bool)
    delta = eq.delta_k_step(r, jnp.zeros(3), v_next, no, no, gamma=GAMMA, lam=LAM, k=2)
    np.testing.assert_allclose(delta, [27.1, 37.1, 39.0])


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 50])
def test_k_step_is_the_paper_s_sum(k):
    segment = _segment()
    delta = eq.delta_k_step(*segment, gamma=GAMMA, lam=LAM, k=k)
    for i, path in enumerate(zip(*segment)):
        np.testing.assert_allclose(delta[i], _k_step_by_definition(*map(np.asarray, path), k), rtol=1e-12)


@pytest.mark.parametrize("trace", [0.0, 0.3, 0.95, 1.0])
def test_trace_is_the_paper_s_mixture(trace):
    segment = _segment()
    delta = eq.delta_trace(*segment, gamma=GAMMA, lam=LAM, trace=trace)
    for i, path in enumerate(zip(*segment)):
        np.testing.assert_allclose(delta[i], _trace_by_definition(*map(np.asarray, path), trace), rtol=1e-12)


def test_limits_meet():
    r, log_pi, v_next, terminated, last = _segment()
    one = eq.delta_one_step(r, log_pi, v_next, terminated, gamma=GAMMA, lam=LAM)
    segment = (r, log_pi, v_next, terminated, last)
    np.testing.assert_allclose(eq.delta_k_step(*segment, gamma=GAMMA, lam=LAM, k=1), one, rtol=1e-13)
    np.testing.assert_allclose(eq.delta_trace(*segment, gamma=GAMMA, lam=LAM, trace=0.0), one, rtol=1e-13)
    whole = eq.delta_k_step(*segment, gamma=GAMMA, lam=LAM, k=r.shape[-1])
    np.testing.assert_allclose(eq.delta_trace(*segment, gamma=GAMMA, lam=LAM, trace=1.0), whole, rtol=1e-13)


def test_a_time_limit_bootstraps_and_a_termination_does_not():
    r, v_next, log_pi = jnp.ones(2), jnp.array([5.0, 7.0]), jnp.zeros(2)
    last, no = jnp.array([True, False]), jnp.zeros(2, bool)
    limit = eq.delta_k_step(r, log_pi, v_next, no, last, gamma=GAMMA, lam=LAM, k=2)
    fell = eq.delta_k_step(r, log_pi, v_next, last, last, gamma=GAMMA, lam=LAM, k=2)
    np.testing.assert_allclose(limit, [1 + 0.9 * 5, 1 + 0.9 * 7])
    np.testing.assert_allclose(fell, [1, 1 + 0.9 * 7])


def test_terminated_is_last_even_if_nobody_says_so():
    # A caller who marks time limits alone must not bootstrap through death.
    r, v_next, log_pi, no = jnp.ones(3), jnp.full(3, 10.0), jnp.zeros(3), jnp.zeros(3, bool)
    fell = jnp.array([True, False, False])
    one = eq.delta_one_step(r, log_pi, v_next, fell, gamma=GAMMA, lam=LAM)
    np.testing.assert_allclose(one, [1, 10, 10])
    np.testing.assert_allclose(eq.delta_k_step(r, log_pi, v_next, fell, no, gamma=GAMMA, lam=LAM, k=1), one)
    assert eq.delta_k_step(r, log_pi, v_next, fell, no, gamma=GAMMA, lam=LAM, k=3)[0] == 1
    assert eq.delta_trace(r, log_pi, v_next, fell, no, gamma=GAMMA, lam=LAM, trace=0.5)[0] == 1


def test_k_must_be_positive():
    with pytest.raises(ValueError, match="k: must be at least 1, got 0"):
        eq.delta_k_step(*_segment(), gamma=GAMMA, lam=LAM, k=0)


def test_what_lies_beyond_an_episode_s_end_has_no_influence():
    r, log_pi, v_next, terminated, _ = _segment(batch=())
    last = jnp.zeros(8, bool).at[3].set(True)
    for target in (
        lambda r: eq.delta_k_step(r, log_pi, v_next, terminated, last, gamma=GAMMA, lam=LAM, k=6),
        lambda r: eq.delta_trace(r, log_pi, v_next, terminated, last, gamma=GAMMA, lam=LAM, trace=0.9),
    ):
        influence = jax.jacobian(target)(r)
        np.testing.assert_array_equal(influence[:4, 4:], 0)
        assert (jnp.diag(influence) == 1).all()


def test_objectives_by_hand():
    delta, v, rho = jnp.array([3.0, 1.0]), jnp.array([1.0, 1.0]), jnp.array([2.0, 2.0])
    assert eq.ell(delta, v) == 2.0  # (4 + 0) / 2
    assert eq.dual_loss(delta, rho) == 1.0  # (1 + 1) / 2
    assert eq.L_eta(delta, v, rho, eta=0.5) == 1.5
    assert eq.L(delta, v, eq.nu_from_rho(rho, v)) == 1.0  # nu = 1: mean(2 * (2, 0) - 1) = mean(3, -1)
    weight = jnp.array([0.25, 0.75])
    assert eq.ell(delta, v, weight) == 1.0  # .25 * 4
    assert eq.L_eta(delta, v, rho, eta=1.0, weight=weight) == 0.0
    np.testing.assert_array_equal(eq.rho_from_nu(eq.nu_from_rho(rho, v), v), rho)


def test_eta_zero_ignores_the_dual():
    delta, v = jnp.array([3.0, 1.0]), jnp.zeros(2)
    assert eq.L_eta(delta, v, jnp.array([9.0, -9.0]), eta=0.0) == eq.ell(delta, v)
    np.testing.assert_array_equal(eq.score_weight(delta, v, jnp.array([9.0, -9.0]), eta=0.0), delta - v)


def test_sample_mean_is_uniform_weight():
    x = jax.random.normal(jax.random.key(0), (10, 3))
    np.testing.assert_allclose(eq.mean(x), eq.mean(x, jnp.full(10, 0.1)), rtol=1e-13)


def test_theorem_is_autodiff_on_a_sample():
    """A neural V and a Gaussian policy on random transitions, some terminal: formulas against jax.grad of L_eta."""
    keys = jax.random.split(jax.random.key(0), 8)
    s, s_next = jax.random.normal(keys[0], (30, 3)), jax.random.normal(keys[1], (30, 3))
    a, r, rho = (jax.random.normal(k, (30,)) for k in keys[2:5])
    terminated = jnp.arange(30) % 7 == 0
    w_V, w_pi, eta = jax.random.normal(keys[5], (4, 3)), jax.random.normal(keys[6], (3,)), 0.7

    V = lambda w, x: jnp.tanh(x @ w[:3].T) @ w[3]
    log_pi = lambda w, x, a: -0.5 * (a - x @ w) ** 2 - 0.5 * jnp.log(2 * jnp.pi)

    def delta_of(w_V, w_pi):
        return eq.delta_one_step(r, log_pi(w_pi, s, a), V(w_V, s_next), terminated, gamma=GAMMA, lam=LAM)

    loss = lambda w_V, w_pi: eq.L_eta(delta_of(w_V, w_pi), V(w_V, s), rho, eta=eta)
    g_V, g_pi = jax.grad(loss, (0, 1))(w_V, w_pi)

    per_state = lambda x: jax.vmap(jax.grad(V), (None, 0))(w_V, x).reshape(30, -1)
    dv_next = jnp.where(terminated[:, None], 0, per_state(s_next))
    dlog_pi = jax.vmap(jax.grad(log_pi), (None, 0, 0))(w_pi, s, a)
    delta, v = delta_of(w_V, w_pi), V(w_V, s)
    formula_V = eq.V_gradient(delta, v, rho, per_state(s), dv_next, gamma=GAMMA, eta=eta)
    np.testing.assert_allclose(formula_V, g_V.ravel(), rtol=1e-10)
    np.testing.assert_allclose(eq.pi_gradient(delta, v, rho, dlog_pi, lam=LAM, eta=eta), g_pi, rtol=1e-10)


def test_jit_vmap_and_traced_floats():
    segment = _segment()
    eager = eq.delta_trace(*segment, gamma=GAMMA, lam=LAM, trace=0.9)
    traced = jax.jit(lambda g, l, t: eq.delta_trace(*segment, gamma=g, lam=l, trace=t))
    np.testing.assert_allclose(traced(GAMMA, LAM, 0.9), eager, rtol=1e-13)
    lams = jnp.array([0.1, LAM])
    many = jax.vmap(lambda lam: eq.delta_k_step(*segment, gamma=GAMMA, lam=lam, k=3))(lams)
    np.testing.assert_allclose(many[1], eq.delta_k_step(*segment, gamma=GAMMA, lam=LAM, k=3), rtol=1e-13)


def test_float32_stays_float32():
    segment = [x.astype(jnp.float32) if x.dtype == jnp.float64 else x for x in _segment()]
    assert eq.delta_k_step(*segment, gamma=GAMMA, lam=LAM, k=3).dtype == jnp.float32
    assert eq.delta_trace(*segment, gamma=GAMMA, lam=LAM, trace=0.9).dtype == jnp.float32
