"""Dual-AC: its equations by hand and as laws of the sampled game, and the proximal steps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.dual_ac import agent, equations
from sbeed.agents.dual_ac.config import DualACConfig
from sbeed.agents.shared.baseline import LinearV, least_squares, value
from sbeed.models.features import Identity
from sbeed.ops.weighted import mean
from sbeed.types import EnvSpec

# gamma = 1/2.          goes on  terminates  goes on  time limit  the data end
R = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0])
V = jnp.array([1.0, 2.0, 3.0, 4.0, 5.0])
LAST = jnp.array([False, True, False, True, False])
BEYOND = equations.value_beyond(jnp.array([9.0, 8.0, 9.0, 6.0, 4.0]), jnp.array([0, 1, 0, 0, 0], bool))
HALF = dict(gamma=0.5)
RATIO = jnp.array([2.0, 0.5, 1.0, 1.0, 0.5])
MEAN = jnp.full(5, 0.2)


def test_returns_by_hand():
    # 1 + 2/2 = 2;  2 and nothing after it;  3 + 7/2 = 6.5;  4 + 6/2 = 7, V of the state reached;  5 + 4/2 = 7.
    np.testing.assert_allclose(equations.path_return(R, BEYOND, LAST, **HALF), [2, 2, 6.5, 7, 7])


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        # 1 + 2/2 - 1;  2 - 2;  3 + 4/2 - 3;  4 + 6/2 - 4;  5 + 4/2 - 5: V of the state after one step
        (0, [1, 0, 2, 3, 2]),
        # No path here is longer than two steps: R_path - V from k = 1 on.
        (1, [1, 0, 3.5, 3, 2]),
        (7, [1, 0, 3.5, 3, 2]),
    ],
)
def test_delta_by_hand(k, expected):
    np.testing.assert_allclose(equations.delta(R, V, BEYOND, LAST, **HALF, k=k), expected)


def test_V_s_goal_by_hand():
    passing = equations.along(RATIO, LAST, **HALF, k=0)
    # Half of row 0's mass arrives at row 1, half of row 2's at row 3; the others' leaves the data.
    np.testing.assert_allclose(passing, [RATIO, [0, 1, 0, 0.5, 0]])
    # What is taken out: 2, -.5, 1, .5, .5, on average .7. At eta_V = 1/2 it counts as it is.
    goal = equations.V_goal(jnp.zeros(5), RATIO, passing[-1], MEAN, eta_V=0.5)
    np.testing.assert_allclose(goal, [1.3, -1.2, 0.3, -0.2, -0.2])


def test_advantages_by_hand():
    # For k = 1 an action counts in the path that it begins, with delta of two steps, and in the one begun before it,
    # with half of delta of one. Rows: 2 * 1;  .5 * 0 + 1 * 0;  1 * 3.5;  1 * 3 + .5 * 3;  .5 * 2.
    passing = equations.along(RATIO, LAST, **HALF, k=1)
    got = equations.advantages(R, V, BEYOND, LAST, passing, **HALF, k=1)
    np.testing.assert_allclose(got, [2, 0, 3.5, 4.5, 1])


# ------------------------------------------------------------------------------------------------- laws


@jax.jit
def _sampled(k):
    """Rows with ends among them, three of them only standing in, and features of their states."""
    keys = jax.random.split(jax.random.key(k), 5)
    r, beyond, log_ratio = (jax.random.normal(key, (60,)) for key in keys[:3])
    last = jax.random.bernoulli(keys[3], 0.1, (60,))
    weight = jnp.where(jnp.arange(60) < 3, 0, 1 / 57)
    return r, beyond, last, equations.ratio_of(log_ratio, weight), weight, jax.random.normal(keys[4], (60, 4))


@pytest.mark.parametrize("k", [0, 4])
def test_regression_on_the_goal_is_the_sampled_game_s_minimum_and_a_constant_is_free_of_charge(k):
    @jax.jit
    def measured(r, beyond, last, ratio, weight, obs):
        path = equations.path_return(r, beyond, last, gamma=0.9)
        arriving = equations.along(ratio, last, gamma=0.9, k=k)[-1]
        mass = mean(ratio - arriving, weight)

        def linear_part(v):
            return mass * mean(v, weight) + mean(ratio * equations.delta(r, v, beyond, last, gamma=0.9, k=k), weight)

        goal = equations.V_goal(path, ratio, arriving, weight, eta_V=0.3)
        V = least_squares(LinearV(Identity(4), jnp.zeros((5, 1))), obs, goal, weight > 0, 1e-12)
        game = lambda V: linear_part(v := value(V, obs)) + 0.3 * mean((path - v) ** 2, weight)
        return jax.grad(game)(V).weights, linear_part(value(V, obs) + 7) - linear_part(value(V, obs))

    slope, charge = measured(*_sampled(k))
    np.testing.assert_allclose(slope, 0, atol=1e-9)
    np.testing.assert_allclose(charge, 0, atol=1e-12)


def test_the_ratio_has_mean_one_and_what_stands_in_has_none():
    _, _, _, ratio, weight, _ = _sampled(0)
    np.testing.assert_allclose(mean(ratio, weight), 1)
    assert (ratio[:3] == 0).all()


def test_advantages_are_those_of_every_path_that_an_action_is_in():
    k, gamma = 4, 0.9
    r, beyond, last, ratio, _, obs = (np.array(x) for x in _sampled(k))
    v = obs[:, 0]
    expected = np.zeros(60)
    for start in range(60):
        ends = [t for t in range(start, 60) if last[t] or t == 59 or t == start + k]
        rows = range(start, ends[0] + 1)
        after = beyond[rows[-1]] if last[rows[-1]] or rows[-1] == 59 else v[rows[-1] + 1]
        for t in rows:
            rest = sum(gamma ** (u - t) * r[u] for u in rows if u >= t) + gamma ** (rows[-1] + 1 - t) * after - v[t]
            expected[t] += ratio[start] * gamma ** (t - start) * rest
    rows = [jnp.array(x) for x in (r, v, beyond, last)]
    passing = equations.along(jnp.array(ratio), rows[-1], gamma=gamma, k=k)
    np.testing.assert_allclose(equations.advantages(*rows, passing, gamma=gamma, k=k), expected, atol=1e-12)


# ------------------------------------------------------------------------------------------------- steps

CONFIG = DualACConfig(features=10, policy="rbf", V="linear", alpha_step_size=0.3, V_ridge=1e-9)


def test_with_a_feature_for_every_state_alpha_s_step_is_the_prox():
    states = jnp.array([0, 0, 1, 2, 2, 2])
    obs, weight = jax.nn.one_hot(states, 3), jnp.full(6, 1 / 6)
    delta = jnp.array([1.0, 3.0, -1.0, 0.0, 0.5, 1.0])  # on average 2, -1 and .5 in the three states
    log_ratio = jnp.array([0.2, -0.4, 0.1])
    before = LinearV(Identity(3, constant=False), log_ratio[:, None])
    after = agent.step_alpha(CONFIG, before, obs, delta, weight > 0)
    alpha = lambda model: jnp.zeros(3).at[states].add(weight * equations.ratio_of(value(model, obs), weight))
    expected = equations.alpha_step(jnp.log(alpha(before)), jnp.array([2, -1, 0.5]), step_size=0.3)
    np.testing.assert_allclose(alpha(after), jnp.exp(expected), rtol=1e-6)


def test_a_preset_s_sizes():
    cheetah = EnvSpec("HalfCheetah-v5", 17, "box", 6, 1000)
    config = agent.DUAL_AC.preset("paper", cheetah)
    assert (config.features, config.gamma, config.trajectories_per_iteration, config.V) == (500, 0.995, 52, "linear")
