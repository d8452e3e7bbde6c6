"""How fast the dual must be: plain steps with tables, next to the saddle point."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from sbeed.envs.tabular import FiniteMDP, two_state
from sbeed.theory import exact
from sbeed.theory.claim import Claim, Statement, at_most, draw, every
from sbeed.theory.operators import soft_optimum
from sbeed.types import Array, Key, Scalar

STEP = 0.02  # of the primal
DOUBLINGS = 40  # a distance is followed over 2^40 steps
PACES = jnp.array([0.1, 1.0, 10.0])  # of a dual that follows V


class Tables(NamedTuple):
    V: Array  # [S]
    logits: Array  # [S, A]
    u: Array  # rho - follows V   [S, A]


def at(mdp: FiniteMDP, V: Array, logits: Array, lam: Scalar, follows: Scalar) -> Tables:
    """V and pi with the dual that is best there."""
    return Tables(V, logits, exact.delta_bar(mdp, V, jax.nn.log_softmax(logits), lam) - follows * V[:, None])


def plain_step(
    mdp: FiniteMDP, lam: Scalar, *, pace: Scalar, follows: Scalar, step: Scalar = STEP
) -> Callable[[Tables], Tables]:
    """Algorithm 2, eta 1, exact expectations, steps along plain gradients; the dual's is `pace` times the primal's.

    rho = follows V + u: 0 is a table of its own, 1 is V + nu with nu held in the primal's gradient.
    """

    def players(x: Tables) -> tuple[Array, Array, Array]:
        return x.V, jax.nn.log_softmax(x.logits), x.u + follows * x.V[:, None]

    def move(x: Tables) -> Tables:
        g = jax.grad(lambda x: exact.L_eta(mdp, *players(x), lam, 1.0))(x)
        g_u = jax.grad(lambda x: exact.dual_loss(mdp, *players(x), lam))(x).u
        return Tables(x.V - step * g.V, x.logits - step * g.logits, x.u - step * pace * g_u)

    return move


def left(mdp: FiniteMDP, lam: Scalar, pace: Scalar, follows: Scalar) -> Array:
    """What 2^40 steps leave of a small distance from the saddle point, at most; e^100 stands for more."""
    optimum = soft_optimum(mdp, lam)
    start, tables = ravel_pytree(at(mdp, *optimum, lam, follows))
    step = plain_step(mdp, lam, pace=pace, follows=follows)

    def moved(x: Array) -> Array:
        new = step(tables(x))
        # What is added to all logits of a state changes nothing and stays for ever: it is no distance.
        return ravel_pytree(new._replace(logits=new.logits - new.logits.mean(-1, keepdims=True)))[0]

    def double(_: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        power, log_norm = state
        squared = power @ power
        norm = jnp.linalg.norm(squared)
        return squared / norm, 2 * log_norm + jnp.log(norm)

    once = jax.jacobian(moved)(start)
    _, log_norm = jax.lax.fori_loop(0, DOUBLINGS, double, (once, jnp.zeros(())))
    return jnp.exp(jnp.minimum(log_norm, 100.0))


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """The saddle point attracts a dual with a table of its own that is ten times as fast; one that follows V, always.

    In one state with A equal actions a table of its own must be more than A (2 gamma - 1) times as fast: the proof is
    in docs/proofs.md, and that of "always".
    """
    lam = draw(mdp, key).lam
    follows = jax.vmap(lambda pace: left(mdp, lam, pace, 1.0))(PACES)
    return every(at_most(left(mdp, lam, 10.0, 0.0), 0.5), at_most(follows.max(), 0.5))


def counterexample() -> Claim:
    """A table of its own, equal steps: the least distance grows."""
    return at_most(left(two_state(noise=0.2), jnp.array(0.5), 1.0, 0.0), 0.5)


STATEMENT = Statement(
    name="dual_pace",
    says="with tables the saddle point attracts plain steps if rho is ten times as fast, at any pace if rho = V + nu",
    labels=("alg:sbeed_dual_nn",),
    check=check,
    without="the faster pace: at equal steps a rho of its own is left behind, and the saddle point repels",
    counterexample=counterexample,
)
