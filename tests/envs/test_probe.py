import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs import probe
from sbeed.envs.registry import JAX_ENVS, make

KEY = jax.random.key(0)
KINDS = [
    getattr(probe, name) for name in "ConstantReward ObservationReward DelayedReward Termination TimeLimit".split()
]
CONTROL = [probe.ActionReward, probe.ActionObservationReward]


def actions_of(env):
    return jnp.linspace(-1, 1, 21)[:, None] if env.box else jnp.arange(2)


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("kind", [*KINDS, *CONTROL])
def test_value_solves_the_bellman_equation_along_every_episode(kind, box):
    """V(s) = max_a r + gamma (1 - terminated) V(s'): a time limit bootstraps, from what it really reached."""
    env, gamma = kind(box=box), 0.9
    step_all = jax.jit(jax.vmap(env.step, (None, 0, None)))
    for key in jax.random.split(KEY, 4):
        state, over = env.reset(key), False
        while not over:
            step = step_all(state, actions_of(env), key)
            target = jnp.max(step.reward + gamma * ~step.terminated * env.value(step.obs, gamma))
            # A grid of 21 actions holds the best one, so no tolerance beyond float32's.
            np.testing.assert_allclose(target, env.value(env.observe(state), gamma), rtol=1e-6, atol=1e-6)
            assert step.reward.dtype == step.obs.dtype == jnp.float32
            over = bool((step.terminated | step.truncated).all())
            state = jax.tree.map(lambda x: x[0], step.state)


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("kind", CONTROL)
def test_best_action_is_the_best_and_the_only_one(kind, box):
    env = kind(box=box)
    obs_seen = set()
    for key in jax.random.split(KEY, 8):
        state = env.reset(key)
        obs_seen.add(float(state[0][0]))
        rewards = jax.vmap(env.step, (None, 0, None))(state, actions_of(env), key).reward
        np.testing.assert_allclose(actions_of(env)[rewards.argmax()], env.best_action(state[0]), atol=1e-6)
        assert (rewards > rewards.max() - 1e-4).sum() == 1
    assert obs_seen == ({0.0} if kind is probe.ActionReward else {-1.0, 1.0})


def test_box_actions_are_clipped():
    env = probe.ActionReward(box=True)
    # -(1 - 1/2)^2
    assert env.step(env.reset(KEY), jnp.array([5.0]), KEY).reward == -0.25


@pytest.mark.parametrize(
    ("env", "terminated", "truncated"),
    [
        (probe.ConstantReward(), [1], [0]),
        (probe.DelayedReward(), [0, 1], [0, 0]),
        (probe.TimeLimit(), [0] * 5, [0, 0, 0, 0, 1]),
        (probe.Termination(), [0, 0, 0, 0, 1], [0] * 5),
    ],
)
def test_ends(env, terminated, truncated):
    def ends(state, key):
        step = env.step(state, jnp.array(0), key)
        return step.state, (step.terminated, step.truncated)

    _, found = jax.lax.scan(ends, env.reset(KEY), jax.random.split(KEY, len(terminated)))
    np.testing.assert_array_equal(np.stack(found), np.array([terminated, truncated], bool))
    assert env.spec.time_limit == (5 if any(truncated) else None)


def test_answers_by_hand():
    gamma = 0.5
    obs = jnp.array([[0.0], [0.2], [0.8]])
    np.testing.assert_allclose(probe.TimeLimit().value(obs, gamma), [2, 2, 2])
    # 1 + 1/2 + 1/4 + 1/8 + 1/16, four terms of it, one term of it
    np.testing.assert_allclose(probe.Termination().value(obs, gamma), [1.9375, 1.875, 1], rtol=1e-6)
    np.testing.assert_allclose(probe.DelayedReward().value(jnp.array([[0.0], [1.0]]), gamma), [0.5, 1])


@pytest.mark.parametrize("name", JAX_ENVS)
def test_every_registered_environment_keeps_its_word(name):
    env = make(name)
    spec = env.spec
    assert spec.name == name
    action = jnp.zeros(spec.action_size) if spec.action_kind == "box" else jnp.array(0)
    keys = jax.random.split(KEY, 3)
    states = jax.vmap(env.reset)(keys)
    step = jax.jit(jax.vmap(env.step, (0, None, 0)))(states, action, keys)
    assert step.obs.shape == (3, spec.observation_size)
    np.testing.assert_array_equal(step.obs, jax.vmap(env.observe)(step.state))
    assert step.reward.shape == step.terminated.shape == step.truncated.shape == (3,)
    assert (step.obs.dtype, step.reward.dtype) == (jnp.float32, jnp.float32)
    # A scan needs the state to keep its types and shapes.
    assert jax.tree.map(jnp.result_type, step.state) == jax.tree.map(jnp.result_type, states)


def test_an_unknown_jax_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'jax:pendulums' is not a JAX environment: the names are jax:pendulum, "):
        make("jax:pendulums")
