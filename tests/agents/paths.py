"""Data that no learner collected."""

import jax
import jax.numpy as jnp

from sbeed.types import Transition


def path(env, key, steps, draw):
    """`steps` transitions under actions draw(obs, key) -> (raw, sent), with ends as the collector writes them."""

    def step(state, k):
        k_action, k_step, k_reset = jax.random.split(k, 3)
        obs = env.observe(state)
        raw, sent = draw(obs, k_action)
        after = env.step(state, sent, k_step)
        last = after.terminated | after.truncated
        carried = jax.tree.map(lambda x, y: jnp.where(last, x, y), env.reset(k_reset), after.state)
        return carried, Transition(obs, raw, after.reward, after.obs, after.terminated, last)

    return jax.jit(lambda k: jax.lax.scan(step, env.reset(k), jax.random.split(k, steps))[1])(key)
