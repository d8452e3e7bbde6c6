"""The dual player: what it sees, and that its exact solution is where steps end."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.sbeed import dual as duals
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.types import EnvSpec

BOX = EnvSpec("box", 3, "box", 2, None)
DISCRETE = EnvSpec("discrete", 3, "discrete", 2, None)


def _seen(spec, count=200):
    k_obs, k_action = jax.random.split(jax.random.key(0))
    obs = jax.random.normal(k_obs, (count, 1, 3), jnp.float32)
    if spec is BOX:
        return obs, jax.random.normal(k_action, (count, 1, 2), jnp.float32), None
    return obs, jax.random.randint(k_action, (count, 1), 0, 2), None


@pytest.mark.parametrize("spec", [BOX, DISCRETE], ids=["box", "discrete"])
@pytest.mark.parametrize("features", ["rbf", "hidden"])
def test_the_exact_dual_leaves_nothing_that_its_features_could_explain(spec, features):
    config = SBEEDConfig(dual="linear", dual_features=features, features=5, hidden=(4,))
    dual = duals.init(config, spec, jax.random.key(1))
    seen = _seen(spec)
    goal = jax.random.normal(jax.random.key(2), (200, 1), jnp.float32) + seen[0][..., 0]
    solved = duals.solve(dual, seen, goal, 0.0)
    # What numpy's least squares leaves on the same features; discrete actions have a block of them each.
    phi, outputs = duals._last_layer(dual.net, dual.inputs(*seen)[:, 0])
    if spec is DISCRETE:
        phi = np.concatenate([phi * (seen[1] == a) for a in range(outputs)], axis=-1)
    best = np.mean((phi @ np.linalg.lstsq(phi, goal[:, 0])[0] - goal[:, 0]) ** 2)
    np.testing.assert_allclose(duals.loss(solved, seen, goal, 0.0), best, rtol=1e-4)
    assert best < duals.loss(dual, seen, goal, 0.0)


def test_later_actions_by_hand():
    config = SBEEDConfig(dual_sees="all", k=3)
    action = jnp.arange(1, 6, dtype=jnp.float32).reshape(1, 5, 1)
    last = jnp.array([[False, True, False, False, False]])
    # From step 1 (action 2) nothing follows; from step 0 only step 1; the segment ends after step 4.
    expected = [[2, 0], [0, 0], [4, 5], [5, 0], [0, 0]]
    np.testing.assert_array_equal(duals.later_actions(config, action, last)[0], expected)


def test_without_a_wish_for_later_actions_there_are_none():
    assert duals.later_actions(SBEEDConfig(k=3), jnp.zeros((1, 3, 1)), jnp.zeros((1, 3), bool)) is None


def test_discrete_actions_are_outputs():
    dual = duals.init(SBEEDConfig(hidden=(4,)), DISCRETE, jax.random.key(0))
    obs, action, _ = _seen(DISCRETE, count=6)
    weights = jax.random.normal(jax.random.key(2), (4, 2), jnp.float32)  # in the place of zeros
    dual = eqx.tree_at(lambda d: d.net.weights[-1], dual, weights)
    outputs = dual.net(obs)
    assert outputs.shape == (6, 1, 2)
    np.testing.assert_array_equal(dual(obs, action)[3, 0], outputs[3, 0, action[3, 0]])
