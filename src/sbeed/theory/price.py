"""What a distance costs Algorithm 1: how many steps of 1 / L it takes to one accuracy. `sbeed theory --price`."""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from sbeed.envs.tabular import FiniteMDP, garnet
from sbeed.theory import exact
from sbeed.theory.operators import soft_optimum
from sbeed.theory.solve import (
    Distance,
    Point,
    data_weighted,
    euclidean,
    kl_simplex,
    origin,
    residual_norm,
    scaled,
)
from sbeed.types import Array, Scalar

ACCURACY = 1e-3  # of V, in every state
MOST = 300_000  # steps
GARNETS = 5  # in a setting
DISTANCES: dict[str, Distance] = {
    "residual's norm (made from P)": residual_norm,
    "data's weights": data_weighted,
    "Euclidean": euclidean,
    "KL": kl_simplex,
}


class Setting(NamedTuple):
    states: int
    actions: int
    gamma: float
    lam: float

    def __str__(self) -> str:
        return f"{self.states} states, {self.actions} actions, gamma {self.gamma:g}, lam {self.lam:g}"


SETTINGS = (
    Setting(6, 3, 0.9, 0.5),
    Setting(20, 4, 0.9, 0.5),
    Setting(50, 5, 0.9, 0.5),
    Setting(6, 3, 0.9, 0.1),
    Setting(20, 4, 0.9, 0.1),
    Setting(50, 5, 0.9, 0.1),
    Setting(6, 3, 0.99, 0.5),
)


def step(mdp: FiniteMDP, lam: Scalar, distance: Distance, step_size: Scalar) -> Callable[[Point], Point]:
    """z -> P_z(step_size grad ell(z)): a step of Algorithm 1 at eta = 1, for at rho* grad L_1 is grad ell."""
    prox = distance(mdp, lam, 1.0)
    slope = jax.grad(lambda z: exact.ell(mdp, z.V, z.log_pi, lam))
    return lambda z: prox(z, scaled(step_size, slope(z)))


@functools.partial(jax.jit, static_argnames="distance")
def linearised(mdp: FiniteMDP, lam: Scalar, distance: Distance) -> Array:
    """The Jacobian of z -> z - P_z(grad ell(z)) at the solution.   [S + S A, S + S A]"""
    unit, optimum = step(mdp, lam, distance, 1.0), soft_optimum(mdp, lam)
    z, tables = ravel_pytree(Point(optimum.V, optimum.log_pi))

    def moved(z: Array) -> Array:
        before, after = tables(z), unit(tables(z))
        return ravel_pytree(Point(before.V - after.V, before.log_pi - after.log_pi))[0]

    return jax.jacobian(moved)(z)


def curvatures(mdp: FiniteMDP, lam: float, distance: Distance) -> np.ndarray:
    """The curvatures of ell at the solution, as the distance measures them, least first; the last one is L.

    They are the eigenvalues of `linearised`, less the S that are 0, of constants added to the logits of a state.
    """
    return np.sort(np.linalg.eigvals(np.asarray(linearised(mdp, lam, distance))).real)[mdp.states :]


@functools.partial(jax.jit, static_argnames="distance")
def steps_needed(mdp: FiniteMDP, lam: Scalar, distance: Distance, step_size: Scalar, most: int = MOST) -> Array:
    """Steps from V = 0 and the uniform policy until V is within ACCURACY of V*_lam; most + 1 if they do not suffice."""
    solution, another = soft_optimum(mdp, lam).V, step(mdp, lam, distance, step_size)

    def on_its_way(state: tuple[Array, Point]) -> Array:
        j, z = state
        # Not >: an error that is not a number never arrives.
        return (j <= most) & ~(jnp.abs(z.V - solution).max() <= ACCURACY)

    start = (jnp.array(0), origin(mdp))
    return jax.lax.while_loop(on_its_way, lambda state: (state[0] + 1, another(state[1])), start)[0]


class Price(NamedTuple):
    """Of one distance on the garnets of a setting."""

    ratio: np.ndarray  # L over the least curvature   [GARNETS]
    steps: np.ndarray  # of 1 / L   [GARNETS]

    def __str__(self) -> str:
        least, median, most = (
            f"{x:,.0f}" if x <= MOST else f"> {MOST:,}" for x in np.quantile(self.steps, [0, 0.5, 1], method="nearest")
        )
        spread = median if least == most else f"{median} ({least} to {most})"
        return f"{spread}; {two_digits(np.median(self.ratio))}"


def two_digits(x: float) -> str:
    rounded = float(f"{x:.2g}")
    return f"{rounded:,.0f}" if rounded < 1e6 else f"{rounded:.2g}"


def price(setting: Setting, distance: Distance, seed: int = 0) -> Price:
    states, actions, gamma, lam = setting
    mdps = [garnet(key, states, actions, gamma=gamma) for key in jax.random.split(jax.random.key(seed), GARNETS)]
    bends = [curvatures(mdp, lam, distance) for mdp in mdps]
    return Price(
        ratio=np.array([bend[-1] / bend[0] for bend in bends]),
        steps=np.array([int(steps_needed(mdp, lam, distance, 1 / bend[-1])) for mdp, bend in zip(mdps, bends)]),
    )


def table(seed: int = 0, on_row: Callable[[str], None] = lambda name: None) -> Iterator[str]:
    """The lines of a Markdown table; `on_row` hears of each setting as it ends."""
    with jax.enable_x64(True):
        yield f"| garnets | {' | '.join(DISTANCES)} |"
        yield "|---" * (1 + len(DISTANCES)) + "|"
        for setting in SETTINGS:
            prices = [str(price(setting, distance, seed)) for distance in DISTANCES.values()]
            on_row(str(setting))
            yield f"| {setting} | {' | '.join(prices)} |"
