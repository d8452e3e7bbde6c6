"""Finite MDPs: what is accepted, what is refused, and that each family is what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs import tabular

FAMILIES = {
    "garnet": lambda: tabular.garnet(jax.random.key(0)),
    "garnet off path": lambda: tabular.garnet(jax.random.key(0), on_path=False),
    "chain": tabular.chain,
    "two_state": lambda: tabular.two_state(noise=0.3),
    "cliff": tabular.cliff,
    "equal_actions": tabular.equal_actions,
    "telling_actions": tabular.telling_actions,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_an_mdp(family):
    mdp = FAMILIES[family]()
    checked = tabular.finite_mdp(mdp.P, mdp.R, mdp.mu, mdp.pi_b, float(mdp.gamma))
    assert checked.states == mdp.R.shape[0]
    assert checked.actions == mdp.R.shape[1]
    assert (mdp.mu > 0).all()
    assert (mdp.pi_b > 0).all()


def test_uniform_unless_given():
    mdp = tabular.finite_mdp(np.ones((1, 4, 1)), np.zeros((1, 4)))
    np.testing.assert_allclose(mdp.pi_b, 0.25)
    np.testing.assert_allclose(mdp.mu, 1)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"P": np.ones((2, 1))}, "P: expected shape"),
        ({"P": np.full((1, 2, 1), 0.5)}, "P: every row"),
        ({"R": np.zeros((2, 2))}, "R: expected shape"),
        ({"R": np.full((1, 2), np.nan)}, "R: every reward must be finite"),
        ({"mu": [0.5]}, "mu: every row"),
        ({"pi_b": [[1.5, -0.5]]}, "pi_b: every row"),
        ({"gamma": 1.0}, "gamma: must lie in"),
    ],
)
def test_wrong_input_names_the_field(fields, complaint):
    good = {"P": np.ones((1, 2, 1)), "R": np.zeros((1, 2)), "gamma": 0.9}
    with pytest.raises(ValueError, match=complaint):
        tabular.finite_mdp(**{**good, **fields})


def test_stationary_distribution_stays():
    mdp = tabular.garnet(jax.random.key(3), states=9)
    chain = jnp.einsum("sa,sat->st", mdp.pi_b, mdp.P)
    np.testing.assert_allclose(mdp.mu @ chain, mdp.mu, rtol=1e-12)
    np.testing.assert_allclose(mdp.mu.sum(), 1)


def test_garnet_branches_as_asked():
    mdp = tabular.garnet(jax.random.key(0), states=8, branching=2)
    np.testing.assert_array_equal((mdp.P > 0.01 / 8 + 1e-12).sum(-1), 2)


def test_garnets_is_a_batch_of_different_mdps():
    mdps = jax.jit(lambda key: tabular.garnets(key, 5))(jax.random.key(0))
    assert mdps.P.shape == (5, 6, 3, 6)
    assert len(np.unique(mdps.gamma)) == 5
    np.testing.assert_array_equal(tabular.garnets(jax.random.key(0), 2, gamma=0.9).gamma, 0.9)


def test_cliff_pays_for_the_goal_and_for_falling():
    mdp = tabular.cliff(5)
    right, down = 1, 3
    assert mdp.R[0, right] == -1  # from the start straight over the edge
    assert mdp.P[0, right, 0] == 1
    assert mdp.P[9, down, 4] == 1  # from above the goal into it
    assert mdp.R[4, 0] == 1
