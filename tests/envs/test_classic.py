import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.classic import CartPole, CartPoleState, Pendulum, PendulumState

KEY = jax.random.key(0)


def gymnasium_path(name, steps=200):
    """States, actions, and what Gymnasium's step gave, over as many episodes as it takes."""
    env, rng = gymnasium.make(name), np.random.default_rng(0)
    env.action_space.seed(0)
    rows, episodes = [], 0
    over = True
    for _ in range(steps):
        if over:
            env.reset(seed=episodes)
            episodes += 1
            if name == "Pendulum-v1":  # started fast, so that the bound on the velocity is met
                env.unwrapped.state = rng.uniform([-np.pi, -8], [np.pi, 8])
        state, action = env.unwrapped.state, env.action_space.sample()
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((state, action, obs, reward, terminated, env.unwrapped.state))
        over = terminated or truncated
    return [np.array(column) for column in zip(*rows)]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    ("name", "env", "state_type"),
    [("Pendulum-v1", Pendulum(), PendulumState), ("CartPole-v1", CartPole(), CartPoleState)],
)
def test_steps_are_gymnasium_s(name, env, state_type, dtype):
    states, actions, obs, rewards, terminated, after = gymnasium_path(name)
    if env.spec.action_kind == "box":
        actions = actions / 2  # Gymnasium's torque to ours
    ours = state_type(*jnp.asarray(states.T, dtype), jnp.zeros(200, jnp.int32))
    if name == "Pendulum-v1":
        ours = ours._replace(angle=(ours.angle + np.pi) % (2 * np.pi) - np.pi)
    step = jax.jit(jax.vmap(env.step, (0, 0, None)))(ours, actions, KEY)
    np.testing.assert_allclose(step.obs, obs, atol=1e-5)
    np.testing.assert_allclose(step.reward, rewards, atol=1e-5)
    np.testing.assert_array_equal(step.terminated, terminated)
    # The angular part of a state is compared through the observation: Gymnasium counts full turns.
    np.testing.assert_allclose(step.state.velocity, after[:, 1], atol=1e-5)
    assert terminated.any() == (name == "CartPole-v1")
    assert {x.dtype for x in jax.tree.leaves(step)} == {np.dtype(d) for d in (dtype, jnp.int32, bool)}


def test_pendulum_clips_its_action():
    env = Pendulum()
    state = env.reset(KEY)
    for given, meant in ((3.0, 1.0), (-3.0, -1.0)):
        beyond, bound = (env.step(state, jnp.array([a]), KEY) for a in (given, meant))
        jax.tree.map(np.testing.assert_array_equal, beyond, bound)


@pytest.mark.parametrize("env", [Pendulum(), CartPole()])
def test_the_time_limit_is_in_the_state_and_a_scan_keeps_its_types(env):
    limit = env.spec.time_limit
    action = jnp.zeros(1) if env.spec.action_kind == "box" else jnp.array(0)

    def ends(state, key):
        step = env.step(state, action, key)
        return step.state, (step.terminated, step.truncated)

    state, (terminated, truncated) = jax.lax.scan(ends, env.reset(KEY), jax.random.split(KEY, limit))
    assert state.t == limit
    # CartPole pushed one way falls at once and stays down: at the limit it is terminated, not truncated.
    assert terminated[-1] == (env.spec.action_kind == "discrete")
    assert truncated[-1] == ~terminated[-1]
    assert not truncated[:-1].any()


def test_cart_pole_is_truncated_when_it_still_stands_at_the_limit():
    state = CartPoleState(*jnp.zeros(4, jnp.float32), jnp.int32(498))
    first = CartPole().step(state, jnp.array(0), KEY)
    second = CartPole().step(first.state, jnp.array(1), KEY)
    assert (first.terminated, first.truncated) == (False, False)
    assert (second.terminated, second.truncated) == (False, True)


@pytest.mark.parametrize(("env", "bound"), [(Pendulum(), [1, 1, 1]), (CartPole(), [0.05] * 4)])
def test_first_states_are_float32_within_gymnasium_s_bounds_and_fill_them(env, bound):
    states = jax.vmap(env.reset)(jax.random.split(KEY, 500))
    obs = jax.vmap(env.observe)(states)
    assert obs.dtype == jnp.float32
    assert (jnp.abs(obs) <= jnp.array(bound)).all()
    assert (jnp.abs(obs).max(0) > 0.95 * jnp.array(bound)).all()
    assert (obs.min(0) < -0.9 * jnp.array(bound)).all()
