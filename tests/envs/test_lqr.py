import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.lqr import LQR, LQRState, SoftOptimum, soft_optimum

KEY = jax.random.key(0)


def random_lqr(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 5), rng.integers(1, 4)
    root_q, root_r = rng.normal(size=(n, n)), rng.normal(size=(m, m))
    return LQR(
        rng.normal(size=(n, n)) / np.sqrt(n),
        rng.normal(size=(n, m)),
        root_q @ root_q.T,
        root_r @ root_r.T + np.eye(m),
        rng.uniform(0, 1),
    )


def step_float64(lqr, s, a):
    """Rewards and mean next states of the environment's own step, in float64."""
    quiet = eqx.tree_at(lambda e: e.noise, lqr, jnp.zeros_like(lqr.noise))
    states = LQRState(jnp.asarray(s), jnp.zeros(len(s), jnp.int32))
    step = jax.vmap(quiet.step, (0, 0, None))(states, jnp.asarray(a), KEY)
    assert step.reward.dtype == step.state.s.dtype == jnp.float64
    return np.asarray(step.reward), np.asarray(step.state.s)


@pytest.mark.parametrize("lqr", [LQR(), *map(random_lqr, range(5))])
@pytest.mark.parametrize(("gamma", "lam"), [(0.9, 0.1), (0.99, 1e-3), (0.5, 2.0)])
def test_temporal_consistency_at_every_state_and_action(lqr, gamma, lam):
    optimum = soft_optimum(lqr, gamma, lam)
    rng = np.random.default_rng(0)
    n, m = lqr.B.shape
    s, a = rng.normal(size=(100, n)), 3 * rng.normal(size=(100, m))
    reward, mean = step_float64(lqr, s, a)
    # E V(s') without the formula under test: V is quadratic, so the mean over +-noise sqrt(n) e_i is exact.
    points = float(lqr.noise) * np.sqrt(n) * np.concatenate([np.eye(n), -np.eye(n)])
    v_next = optimum.value(mean[:, None] + points).mean(1)
    # log pi is of the order of 1/lam: compare on the scale of the terms.
    np.testing.assert_allclose(
        reward + gamma * v_next - lam * optimum.log_pi(s, a), optimum.value(s), rtol=1e-9, atol=1e-6
    )


def test_hand_numbers():
    # s' = a + w, r = -s^2 - a^2, gamma 1/2, lam 1: as A = 0, P = Q = 1, M = 1 + 1/2 = 3/2, K = 0, Sigma = 1/2 * 2/3.
    # c/2 = (log pi - log 3/2)/2 - (1/2) (1/10)^2 * 1, so c = log(2 pi/3) - 0.01.
    P, c, K, Sigma = soft_optimum(LQR([[0.0]], [[1.0]], [[1.0]], [[1.0]], 0.1), gamma=0.5, lam=1.0)
    np.testing.assert_allclose(
        (P[0, 0], c, K[0, 0], Sigma[0, 0]), (1, np.log(2 * np.pi / 3) - 0.01, 0, 1 / 3), rtol=1e-7
    )


def test_no_other_gain_or_spread_does_better():
    lqr, gamma, lam = LQR(noise=0), 0.9, 0.1
    optimum = soft_optimum(lqr, gamma, lam)
    s = np.random.default_rng(0).normal(size=(50, 2))

    def one_step(K, spread):
        """E[r + gamma V(s') - lam log pi] for N(K s, spread^2), by its two-point quadrature."""
        mean = s @ K.T
        total = 0.5 * lam * np.log(2 * np.pi * np.e * spread**2)
        for sign in (-1, 1):
            reward, after = step_float64(lqr, s, mean + sign * spread)
            total = total + (reward + gamma * optimum.value(after)) / 2
        return total.mean()

    spread = float(np.sqrt(optimum.Sigma[0, 0]))
    best = one_step(optimum.K, spread)
    assert best == pytest.approx(optimum.value(s).mean())
    for K, other in (
        (optimum.K + 0.05, spread),
        (optimum.K - 0.05, spread),
        (optimum.K, 1.2 * spread),
        (optimum.K, 0.8 * spread),
    ):
        assert one_step(K, other) < best


def test_actions_are_not_clipped_and_noise_has_its_scale():
    lqr = LQR(noise=0.3)
    state = LQRState(jnp.ones(2, jnp.float32), jnp.int32(0))
    step = jax.vmap(lqr.step, (None, None, 0))(state, jnp.array([7.0]), jax.random.split(KEY, 4000))
    assert {step.obs.dtype, step.reward.dtype} == {np.dtype(np.float32)}
    # A s + B a = (1 + .2, .9 + .2 * 7);  r = -(1 + .1 + .1 * 49).   The mean of 4000 draws has sd .3 / 63 = .005.
    np.testing.assert_allclose(step.obs.mean(0), [1.2, 2.3], atol=0.02)
    np.testing.assert_allclose(step.obs.std(0), 0.3, atol=0.01)
    np.testing.assert_allclose(step.reward, -6.0, rtol=1e-5)


def test_it_is_truncated_and_never_terminated():
    lqr = LQR()
    state = lqr.reset(KEY)

    def ends(state, key):
        step = lqr.step(state, jnp.zeros(1), key)
        return step.state, (step.terminated, step.truncated)

    _, (terminated, truncated) = jax.lax.scan(ends, state, jax.random.split(KEY, lqr.spec.time_limit))
    assert not terminated.any()
    assert truncated.tolist() == [False] * 99 + [True]


def test_what_has_no_optimum_is_refused():
    with pytest.raises(ValueError, match="no policy keeps the discounted cost finite"):
        soft_optimum(LQR([[2.0]], [[0.0]], [[1.0]], [[1.0]]), gamma=0.9, lam=0.1)
    with pytest.raises(ValueError, match="a positive definite action_cost"):
        soft_optimum(LQR(action_cost=[[0.0]]), gamma=0.9, lam=0.1)
    with pytest.raises(ValueError, match="gamma"):
        soft_optimum(LQR(), gamma=1.0, lam=0.1)
    with pytest.raises(ValueError, match=r"state_cost: expected shape \[2, 2\], got \[2\]"):
        LQR(state_cost=[1.0, 1.0])


def test_without_a_bound_on_V_another_pair_is_consistent_too():
    """The Riccati equation's other solution: the theorem's uniqueness is that of bounded V."""
    lqr, gamma, lam = LQR(), 0.9, 0.1
    optimum = soft_optimum(lqr, gamma, lam)
    A, B, Q, R = (np.asarray(x, np.float64) for x in (lqr.A, lqr.B, lqr.state_cost, lqr.action_cost))
    a, G, back = gamma**0.5 * A, gamma * B @ np.linalg.inv(R) @ B.T, np.linalg.inv(gamma**0.5 * A).T
    values, vectors = np.linalg.eig(np.block([[a + G @ back @ Q, -G @ back], [-back @ Q, back]]))
    away = vectors[:, np.abs(values) > 1]  # the directions in which the system runs away
    P = (away[2:] @ np.linalg.inv(away[:2])).real
    M = R + gamma * B.T @ P @ B
    K, noise = -gamma * np.linalg.solve(M, B.T @ P @ A), float(lqr.noise)
    c = (lam / 2 * (np.log(np.pi * lam) - np.log(M[0, 0])) - gamma * noise**2 * np.trace(P)) / (1 - gamma)
    other = SoftOptimum(P, c, K, lam / 2 * np.linalg.inv(M))
    assert M > 0  # so that its policy is a Gaussian
    assert np.abs(np.linalg.eigvals(A + B @ other.K)).min() > 1
    assert np.abs(other.K - optimum.K).max() > 3

    rng = np.random.default_rng(0)
    s, actions = rng.normal(size=(100, 2)), 3 * rng.normal(size=(100, 1))
    reward = -((s @ Q) * s).sum(-1) - ((actions @ R) * actions).sum(-1)
    for pair in (optimum, other):
        ahead = pair.value(s @ A.T + actions @ B.T) - noise**2 * np.trace(pair.P)
        np.testing.assert_allclose(reward + gamma * ahead - lam * pair.log_pi(s, actions), pair.value(s), atol=1e-8)
