"""Learners of fixed data, transitions of no task, and how trees are compared."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.data import replay as ring
from sbeed.theory.report import FAST_CODE
from sbeed.types import EnvSpec, Transition

BOX = EnvSpec("box", 3, "box", 2, None)
DISCRETE = EnvSpec("discrete", 3, "discrete", 4, None)


@cache
def learner(agent, config, spec):
    """learn(data, key) -> (state, metrics), compiled once for all tasks of one kind; long runs are worth optimising.

    agent: the module of an algorithm
    """

    @partial(jax.jit, compiler_options=FAST_CODE if config.updates_per_iteration > 2_000 else None)
    def learn(data, key):
        replay = ring.insert(ring.empty(spec, config.replay_capacity), data)
        state = agent.init(config, spec, key)
        return agent.iterate(config, spec, agent.prepare(config, spec, state, replay, key), replay, key)

    return learn


def garnet_path(mdp, steps):
    """A path of the MDP's behaviour, with one-hot states."""

    def step(s, k):
        k_action, k_next = jax.random.split(k)
        a = jax.random.categorical(k_action, jnp.log(mdp.pi_b[s]))
        s_next = jax.random.categorical(k_next, jnp.log(mdp.P[s, a]))
        return s_next, (s, a, s_next)

    _, (s, a, s_next) = jax.lax.scan(step, 0, jax.random.split(jax.random.key(0), steps))
    hot, never = lambda x: jax.nn.one_hot(x, mdp.states, dtype=jnp.float32), jnp.zeros(len(s), bool)
    return Transition(hot(s), a, mdp.R[s, a].astype(jnp.float32), hot(s_next), never, never)


def drawn(key, shape, spec=BOX, ends=0.3):
    """Transitions [*shape] of no task; `ends` of them are the last of their path, half of those by termination."""
    keys = jax.random.split(key, 6)
    normal = lambda k, *size: jax.random.normal(k, (*shape, *size), jnp.float32)
    action = normal(keys[1], 2) if spec is BOX else jax.random.randint(keys[1], shape, 0, 4)
    last = jax.random.bernoulli(keys[4], ends, shape)
    terminated = last & jax.random.bernoulli(keys[5], 0.5, shape)
    return Transition(normal(keys[0], 3), action, normal(keys[2]), normal(keys[3], 3), terminated, last)


def single_steps(seed=0, size=8):
    """Transitions [size] in a box of actions, of no task; whatever is the last of its path is terminated."""
    keys = jax.random.split(jax.random.key(seed), 5)
    normal = lambda k, *shape: jax.random.normal(k, (size, *shape), jnp.float32)
    ends = jax.random.bernoulli(keys[4], 0.3, (size,))
    return Transition(normal(keys[0], 3), normal(keys[1], 2), normal(keys[2]), normal(keys[3], 3), ends, ends)


def uniform(obs, key):
    """An action in a box that no policy chose: before its tanh, and after it."""
    sent = jax.random.uniform(key, (1,), jnp.float32, -0.99, 0.99)
    return jnp.arctanh(sent), sent


def coin(obs, key):
    """One of two actions."""
    action = jax.random.bernoulli(key).astype(jnp.int32)
    return action, action


def assert_close(one, two, tolerance):
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
