"""What a statement of the laboratory is: a check that must hold, and a broken premise under which it must not."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.envs.tabular import FiniteMDP
from sbeed.theory.operators import Optimum
from sbeed.types import Array, Key, Scalar

ROUNDING = 1e-9  # float64 leaves an exact tie this far open, relative to the right-hand side


class Claim(NamedTuple):
    """lhs <= rhs with rhs > 0; an equality is |difference| <= tolerance."""

    lhs: Array
    rhs: Array

    @property
    def margin(self) -> Array:
        """1 - lhs / rhs: the share of the right-hand side left unused. 1 is lhs = 0, 0 is tight, negative is false.

        -inf where the share has no meaning: rhs <= 0, or a NaN on either side.
        """
        share = 1 - self.lhs / self.rhs
        return jnp.where((self.rhs > 0) & ~jnp.isnan(share), share, -jnp.inf)

    @property
    def holds(self) -> Array:
        return self.margin >= -ROUNDING


def at_most(lhs: Scalar, rhs: Scalar) -> Claim:
    return Claim(jnp.asarray(lhs), jnp.asarray(rhs))


def equal(x: Array, y: Scalar, tolerance: float = 1e-9) -> Claim:
    """Every |x - y| <= tolerance * max(1, |y|)."""
    y = jnp.asarray(y)
    return at_most(jnp.max(jnp.abs(x - y) / jnp.maximum(1, jnp.abs(y))), tolerance)


def every(*claims: Claim) -> Claim:
    """The tightest of several claims: it holds exactly when all do."""
    both = Claim(*(jnp.stack([jnp.asarray(side, float) for side in sides]) for sides in zip(*claims)))
    worst = jnp.argmin(both.margin, axis=0)
    return Claim(*(jnp.take_along_axis(x, worst[None], axis=0)[0] for x in both))


@dataclass(frozen=True)
class Statement:
    """One statement of the paper (or about it) with the code that tests it."""

    name: str
    says: str  # the statement in words
    labels: tuple[str, ...]  # the paper's LaTeX labels
    check: Callable[[FiniteMDP, Key], Claim]  # pure; vmapped over MDPs unless `pooled`
    without: str  # the premise that the counterexample breaks
    counterexample: Callable[[], Claim]  # must not hold
    asymptotic: bool = False  # about limits: fewer, slower MDPs
    stationary: bool = False  # mu must be pi_b's stationary distribution, as along one path; otherwise it is any
    pooled: bool = False  # `check` takes the whole batch: the statement is about an average over MDPs
    states: int = 6
    actions: int = 3


class Draw(NamedTuple):
    """A random point at which an algebraic statement must hold."""

    lam: Array
    V: Array  # [S]
    logits: Array  # [S, A]

    @property
    def log_pi(self) -> Array:
        return jax.nn.log_softmax(self.logits)

    @property
    def point(self) -> Optimum:
        return Optimum(self.V, self.log_pi)


def draw(mdp: FiniteMDP, key: Key) -> Draw:
    """lam log-uniform in [.05, 1]; V and logits uniform, of the size they have near a solution."""
    states, actions = mdp.states, mdp.actions
    # One call: compiling the generator is most of what a small check costs.
    uniform = jax.random.uniform(key, (1 + states + states * actions,))
    lam = 0.05 ** uniform[0]
    V, logits = 10 * uniform[1 : 1 + states] - 5, 6 * uniform[1 + states :].reshape(states, actions) - 3
    return Draw(lam, V, logits)


def central_differences(f: Callable[[Array], Array], x: Array, h: float = 1e-5) -> Array:
    """The derivative of f, a number or an array, along every coordinate of x, up to O(h^2).   [*x] -> [*f, *x]"""
    steps = h * jnp.eye(x.size).reshape(-1, *x.shape)
    slopes = jax.vmap(lambda e: (f(x + e) - f(x - e)) / (2 * h), out_axes=-1)(steps)
    return slopes.reshape(*slopes.shape[:-1], *x.shape)
