"""Steps that take less than the whole backward half and still descend."""

import jax
import jax.numpy as jnp

from sbeed.agents.q_sbeed.equations import least_share, log_pi_of
from sbeed.envs.tabular import FiniteMDP
from sbeed.theory import baird
from sbeed.theory.claim import Claim, Statement, at_most, central_differences, draw, every
from sbeed.theory.claims.q_envelope import envelope
from sbeed.theory.claims.q_gradient import FEATURES, Problem
from sbeed.types import Array, Key, Scalar


def halves(problem: Problem, w: Array) -> tuple[Array, Array]:
    """The forward and the backward half of the gradient of max L_eta at eta = 1, the dual exact.   [D], [D]"""
    mdp, phi, lam, _ = problem
    Q = phi @ w
    nu = mdp.mu[:, None] * mdp.pi_b * (problem.delta_bar(w) - Q)
    dV = envelope(log_pi_of(Q, lam=lam), phi)
    return -2 * jnp.einsum("sa,sad->d", nu, phi), 2 * mdp.gamma * jnp.einsum("sa,sax,xd->d", nu, mdp.P, dV)


def share(f: Array, b: Array, cosine: Scalar) -> Array:
    """`least_share` of two halves."""
    g = f + b
    return least_share(b @ b, b @ g, g @ g, cosine=cosine)


def angle(d: Array, g: Array) -> Array:
    """cos(d, g)"""
    return (d @ g) / (jnp.linalg.norm(d) * jnp.linalg.norm(g))


def descends(problem: Problem, w: Array, c: Array, cosine: Scalar) -> Claim:
    """Along -(f + c b) the objective falls at `cosine` times its steepest rate or faster."""
    f, b = halves(problem, w)
    slope = central_differences(problem.maximised, w)
    rate = ((f + c * b) @ slope) / (jnp.linalg.norm(f + c * b) * jnp.linalg.norm(slope))
    return at_most(1 - rate, 1 - cosine + 1e-6)


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """d = f + c b with c = `least_share`: cos(d, grad max L_eta) >= cosine, and no smaller c has it.

    So max L_eta falls along -d wherever it has a slope at all, and small enough steps converge as gradient descent's.
    """
    k_draw, k_phi, k_w, k_cosine = jax.random.split(key, 4)
    phi = jax.random.normal(k_phi, (*mdp.R.shape, FEATURES))
    problem, w = Problem(mdp, phi, draw(mdp, k_draw).lam, 1.0), jax.random.normal(k_w, (FEATURES,))
    cosine = jax.random.uniform(k_cosine, minval=0.1, maxval=0.9)
    f, b = halves(problem, w)
    c = share(f, b, cosine)
    # Where c is not zero a little less of the backward half turns the step too far.
    too_far = jnp.where(c > 0, angle(f + (c - 1e-3) * b, f + b), -1)
    return every(descends(problem, w, c, cosine), at_most(1 + too_far, 1 + cosine))


def star_problem() -> tuple[Problem, Array]:
    """Baird's star with eight weights for each action, from its usual start."""
    per_state = jnp.asarray(baird.state_features())
    size = per_state.shape[1]
    phi = jnp.zeros((baird.STATES, 2, 2 * size))
    phi = phi.at[:, baird.DASHED, :size].set(per_state).at[:, baird.SOLID, size:].set(per_state)
    start = jnp.concatenate([jnp.ones(size), jnp.asarray(baird.initial_weights())])
    return Problem(baird.star(), phi, baird.LAM, 1.0), start


def counterexample() -> Claim:
    """c = 0 on Baird's star: the semi-gradient climbs."""
    problem, w = star_problem()
    return descends(problem, w, jnp.zeros(()), 0.5)


STATEMENT = Statement(
    name="q_descent",
    says=(
        "with the least share c of the backward half at which cos(f + c b, f + b) is as asked, every step of Q points "
        "down max L_eta, and no smaller share does"
    ),
    labels=("thm:gradient_estimator",),
    check=check,
    without="the backward half (c = 0) on Baird's star: the semi-gradient points up the objective, and diverges",
    counterexample=counterexample,
)
