"""Values told from data of others: the estimators by hand, and an exact case."""

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from sbeed.agents.shared.policies import make_policy
from sbeed.data.dataset import from_arrays
from sbeed.training.ope import doubly_robust, effective, estimate_value, pieces
from sbeed.types import EnvSpec


def test_doubly_robust_by_hand():
    # Two pieces of two steps, weights 1, 1 and then 3, 1; gamma .5:
    # mean V 2; step 0: (1 + 3) / 2 = 2; step 1: (3 * 4 + 1 * 0) / 4 = 3, halved.
    log_w = np.log([[1.0, 3.0], [1.0, 1.0]])
    assert doubly_robust(np.array([1.0, 3.0]), log_w, np.array([[1.0, 4.0], [3.0, 0.0]]), gamma=0.5) == 2 + 2 + 1.5


def test_an_exact_Q_needs_no_weights():
    wild = np.random.default_rng(0).normal(0, 5, (7, 9))
    assert doubly_robust(np.arange(7.0), wild, np.zeros((7, 9)), gamma=0.9) == 3.0


def test_effective_numbers():
    assert effective(np.zeros(8)) == pytest.approx(8)
    assert effective(np.array([1000.0, 0.0, 0.0])) == pytest.approx(1)  # and nothing overflows


def _bandit(n=1_000, share=0.3):
    """One state, episodes of one step: action 1 pays 1, action 0 nothing."""
    action = (np.random.default_rng(0).random(n) < share).astype(int)
    obs, last = np.ones((n, 1)), np.ones(n, bool)
    columns = {"obs": obs, "action": action, "reward": action.astype(float), "next_obs": obs, "terminated": last}
    return from_arrays({**columns, "last": last}, action_space=spaces.Discrete(2))


def _policy(logit):
    import equinox as eqx
    import jax

    spec = EnvSpec("bandit", 1, "discrete", 2, None)
    shape = {"squash": False, "hidden": (4,), "activation": "tanh", "features": 1, "initial_std": 1.0}
    pi = make_policy(spec, jax.random.key(0), kind="table", **shape)
    return eqx.tree_at(lambda p: p.weights, pi, jnp.array([[0.0, logit]], jnp.float32))


def test_a_bandit():
    # pi takes action 1 three times in four, so it earns .75 where the data earn .3.
    found = estimate_value(_policy(np.log(3)), _bandit(), gamma=0.9, updates=1_500)
    assert found.fitted == pytest.approx(0.75, abs=0.03)
    assert found.robust == pytest.approx(0.75, abs=0.03)
    assert found.robust_interval[0] <= 0.75 + 1e-3
    assert found.warning is None
    # Weights .75/.3 and .25/.7: (.3 * 2.5 + .7 * .357)^2 / (.3 * 6.25 + .7 * .128) = .51
    assert found.coverage == pytest.approx(0.51, abs=0.05)


def test_where_coverage_is_thin_it_says_so():
    found = estimate_value(_policy(np.log(1000)), _bandit(n=1_000, share=0.005), gamma=0.9, updates=10)
    assert "coverage is thin" in found.warning


def test_pieces_are_episodes_cut_at_the_horizon():
    columns = {"obs": np.arange(25), "action": np.zeros(25, int), "reward": np.ones(25), "next_obs": np.arange(1, 26)}
    last = np.isin(np.arange(25), [9, 24])
    data = from_arrays({**columns, "terminated": np.zeros(25), "last": last})
    starts, lengths = pieces(data, 6)
    assert starts.tolist() == [0, 6, 10, 16, 22]
    assert lengths.tolist() == [6, 4, 6, 6, 3]
