"""The scale of the multi-step saddle."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from sbeed.agents.sbeed import equations
from sbeed.envs.tabular import FiniteMDP, telling_actions
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Draw, Statement, draw, equal, every
from sbeed.theory.enumerate import given_actions, paths
from sbeed.types import Array, Key

K = 2


def printed(delta: Array, v: Array, nu: Array, weight: Array) -> Array:
    """E[nu (delta - V)] - E[nu^2] / 2: the saddle as appendix:multi_step prints it (erratum E4)."""
    return equations.mean(nu * (delta - v) - nu**2 / 2, weight)


def saddle(mdp: FiniteMDP, point: Draw, d: Array) -> tuple[Array, ...]:
    """The K-step squared error, E[d(s_0, a_0, a_1)^2], and both saddles at nu* and at nu* + d.   d: [S, A, A]

    pi_b is made blind to the state, so that what rho sees (erratum E2) plays no part.
    """
    blind = replace(mdp, pi_b=jnp.broadcast_to(mdp.pi_b[0], mdp.pi_b.shape))
    p = paths(blind, K)
    delta, v = exact.delta_k_step(blind, p, point.V, point.log_pi, point.lam, K), point.V[p.s[:, 0]]
    nu = given_actions(blind, K, K, delta, p.open_loop) - v
    d = d[p.s[:, 0], p.a[:, 0], p.a[:, 1]]
    values = (f(delta, v, x, p.weight) for f in (equations.L, printed) for x in (nu, nu + d))
    return equations.mean(nu**2, p.weight), equations.mean(d**2, p.weight), *values


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """Both saddles peak at nu*, one at the loss, the printed at half of it, and fall by E[d^2] and half of that."""
    k_point, k_d = jax.random.split(key)
    d = jax.random.normal(k_d, (mdp.states, mdp.actions, mdp.actions))
    loss, moved, best, other, printed_best, printed_other = saddle(mdp, draw(mdp, k_point), d)
    return every(
        equal(best, loss),
        equal(other, loss - moved),
        equal(printed_best, loss / 2),
        equal(printed_other, (loss - moved) / 2),
    )


def counterexample() -> Claim:
    mdp = telling_actions()
    point = Draw(jnp.array(0.1), jnp.ones(3), jnp.zeros((3, 2)))
    loss, _, _, _, printed_best, _ = saddle(mdp, point, jnp.zeros((3, 2, 2)))
    return equal(printed_best, loss)


STATEMENT = Statement(
    name="multi_step_scale",
    says="max over nu of 2 E[nu x] - E[nu^2] is the k-step squared error; the printed saddle's is half of it",
    labels=("appendix:multi_step",),
    check=check,
    without="the main text's factor 2: the printed scale claimed equal to the loss (erratum E4)",
    counterexample=counterexample,
    states=3,
    actions=2,
)
