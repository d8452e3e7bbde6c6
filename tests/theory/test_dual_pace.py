"""How fast the dual must be, by hand and by running it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import equal_actions, garnet
from sbeed.theory.claims import dual_pace
from sbeed.theory.operators import soft_optimum

LEFT = jax.jit(dual_pace.left)


@pytest.mark.parametrize(("actions", "gamma"), [(1, 0.9), (2, 0.9), (3, 0.9), (3, 0.6)])
def test_the_least_pace_of_one_state_by_hand(actions, gamma):
    # A (2 gamma - 1): .8, 1.6, 2.4 and .6.
    mdp, least = equal_actions(actions, gamma=gamma), actions * (2 * gamma - 1)
    assert LEFT(mdp, 0.5, 0.97 * least, 0.0) > 1e3
    assert LEFT(mdp, 0.5, 1.03 * least, 0.0) < 1e-3


def test_one_step_by_hand():
    # One state, one action, no reward, gamma .9, V = 1, rho = 0: delta = .9. L_1 = (delta - V)^2 - (delta - rho)^2 has
    # the slope 2 * (-.1) * (-.1) - 2 * .9 * .9 = -1.6 in V; (delta - rho)^2 has -1.8 in rho.
    mdp = equal_actions(1, gamma=0.9)
    start = dual_pace.Tables(jnp.ones(1), jnp.zeros((1, 1)), jnp.zeros((1, 1)))
    own = dual_pace.plain_step(mdp, 0.5, pace=10.0, follows=0.0, step=0.1)(start)
    np.testing.assert_allclose([own.V[0], own.u[0, 0]], [1 + 0.16, 1.8], rtol=1e-12)
    # V + nu at nu = -1, rho = 0 again: with nu held rho moves along, and the slope in V is -1.6 + 1.8 = .2.
    follows = dual_pace.plain_step(mdp, 0.5, pace=10.0, follows=1.0, step=0.1)(start._replace(u=-jnp.ones((1, 1))))
    np.testing.assert_allclose([follows.V[0], follows.u[0, 0]], [1 - 0.02, -1 + 1.8], rtol=1e-12)


@pytest.mark.parametrize(
    ("pace", "follows", "settles"), [(1.0, 0.0, False), (10.0, 0.0, True), (1.0, 1.0, True), (10.0, 1.0, True)]
)
def test_on_a_garnet_equal_steps_do_not_settle_and_a_dual_ten_times_as_fast_does(pace, follows, settles):
    mdp, lam = garnet(jax.random.key(0)), 0.5

    @jax.jit
    def error():
        start = dual_pace.at(mdp, jnp.zeros(6), jnp.zeros((6, 3)), lam, follows)
        step = dual_pace.plain_step(mdp, lam, pace=pace, follows=follows, step=0.2)
        found = jax.lax.fori_loop(0, 60_000, lambda _, x: step(x), start)
        return jnp.abs(found.V - soft_optimum(mdp, lam).V).max()

    assert bool(error() < 1e-7) == settles
