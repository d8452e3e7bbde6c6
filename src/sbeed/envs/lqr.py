"""A linear system with quadratic costs, whose entropy-regularised optimum is known exactly."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.base import JaxEnv, Step
from sbeed.types import Array, EnvSpec, Key


class LQRState(NamedTuple):
    s: Array
    t: Array


class LQR(JaxEnv):
    """s' = A s + B a + noise * N(0, I),  r = -(s^T state_cost s + a^T action_cost a)

    The action is *not* clipped, against the rule for a box: only then is the optimal policy a Gaussian. It never
    terminates; the time limit of 100 truncates. The default is a point pushed along a line: position, velocity.
    """

    A: Array  # [n, n]
    B: Array  # [n, m]
    state_cost: Array  # symmetric, positive semidefinite: [n, n]
    action_cost: Array  # symmetric, positive definite: [m, m]
    noise: Array  # standard deviation of each coordinate of s'

    def __init__(
        self,
        A: Any = ((1, 0.2), (0, 0.9)),
        B: Any = ((0,), (0.2,)),
        state_cost: Any = ((1, 0), (0, 0.1)),
        action_cost: Any = ((0.1,),),
        noise: Any = 0.05,
    ) -> None:
        self.A, self.B, self.state_cost, self.action_cost, self.noise = (
            jnp.asarray(x, jnp.float32) for x in (A, B, state_cost, action_cost, noise)
        )
        if self.B.ndim != 2:
            raise ValueError(f"B: expected shape [n, m], got {list(self.B.shape)}")
        n, m = self.B.shape
        for name, given, shape in (
            ("A", self.A, (n, n)),
            ("state_cost", self.state_cost, (n, n)),
            ("action_cost", self.action_cost, (m, m)),
            ("noise", self.noise, ()),
        ):
            if given.shape != shape:
                raise ValueError(f"{name}: expected shape {list(shape)}, got {list(given.shape)}")

    @property
    def spec(self) -> EnvSpec:
        n, m = self.B.shape
        return EnvSpec("jax:lqr", observation_size=n, action_kind="box", action_size=m, time_limit=100)

    def reset(self, key: Key) -> LQRState:
        return LQRState(jax.random.normal(key, self.A.shape[:1], jnp.float32), jnp.int32(0))

    def observe(self, state: LQRState) -> Array:
        return state.s

    def step(self, state: LQRState, action: Array, key: Key) -> Step:
        s, a = state.s, action.astype(state.s.dtype)
        reward = -(s @ self.state_cost @ s + a @ self.action_cost @ a)
        s = self.A @ s + self.B @ a + self.noise * jax.random.normal(key, s.shape, s.dtype)
        after = LQRState(s, state.t + 1)
        return Step(after, s, reward, jnp.array(False), after.t >= 100)


class SoftOptimum(NamedTuple):
    """V*_lam(s) = -s^T P s + c  and  pi*_lam(.|s) = N(K s, Sigma), in float64."""

    P: np.ndarray
    c: float
    K: np.ndarray
    Sigma: np.ndarray

    def value(self, s: np.ndarray) -> np.ndarray:
        """[..., n] -> [...]"""
        return self.c - ((s @ self.P) * s).sum(-1)

    def log_pi(self, s: np.ndarray, a: np.ndarray) -> np.ndarray:
        """[..., n], [..., m] -> [...]"""
        x = a - s @ self.K.T
        log_det = np.linalg.slogdet(2 * math.pi * self.Sigma)[1]
        return -0.5 * ((x @ np.linalg.inv(self.Sigma)) * x).sum(-1) - 0.5 * log_det


def soft_optimum(lqr: LQR, gamma: float, lam: float) -> SoftOptimum:
    """The exact solution of V(s) = max_pi E[r + gamma V(s') - lam log pi(a|s)] for unbounded actions.

    Let V(s) = -s^T P s + c and write Q, R for the costs. With M = R + gamma B^T P B and K = -gamma M^-1 B^T P A,
    completing the square in a gives

        r + gamma E V(s') = -(a - K s)^T M (a - K s) - s^T P' s + gamma (c - noise^2 tr P)
        P' = Q + gamma A^T P A - gamma^2 A^T P B M^-1 B^T P A.

    The smoothed maximum lam log int exp(./lam) da is taken by pi ~ exp(-(a - K s)^T M (a - K s) / lam), the Gaussian
    with mean K s and Sigma = lam/2 M^-1; its integral is (pi lam)^(m/2) det(M)^(-1/2). So P = P', the *same* Riccati
    equation as without entropy, and only c depends on lam:

        (1 - gamma) c = lam/2 (m log(pi lam) - log det M) - gamma noise^2 tr P.

    Then V(s) = r + gamma E V(s') - lam log pi(a|s) for every (s, a), not only in the mean over pi.
    """
    if not (0 < gamma < 1 and lam > 0):
        raise ValueError(f"expected gamma in (0, 1) and lam > 0, got gamma={gamma}, lam={lam}")
    A, B, Q, R = (np.asarray(x, np.float64) for x in (lqr.A, lqr.B, lqr.state_cost, lqr.action_cost))
    if not (np.allclose(Q, Q.T) and np.allclose(R, R.T) and (np.linalg.eigvalsh(R) > 0).all()):
        raise ValueError("expected symmetric costs and a positive definite action_cost")
    P = Q
    with np.errstate(over="ignore", invalid="ignore"):  # a cost without bound overflows, and is refused below
        for _ in range(10_000):
            M = R + gamma * B.T @ P @ B
            K = -gamma * np.linalg.solve(M, B.T @ P @ A)
            previous, P = P, Q + gamma * A.T @ P @ (A + B @ K)
            if np.isfinite(P).all() and np.abs(P - previous).max() <= 1e-14 * np.abs(P).max():
                break
        else:
            raise ValueError("the Riccati recursion does not converge: no policy keeps the discounted cost finite")
    log_det = np.linalg.slogdet(M)[1]
    entropy = lam / 2 * (len(M) * math.log(math.pi * lam) - log_det)
    c = (entropy - gamma * float(lqr.noise) ** 2 * np.trace(P)) / (1 - gamma)
    return SoftOptimum(P, float(c), K, lam / 2 * np.linalg.inv(M))
