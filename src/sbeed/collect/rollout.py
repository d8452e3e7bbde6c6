"""Collect and evaluate in pure environments, as compiled programs; `collect.actor` does the same on the host."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from sbeed.envs.base import JaxEnv
from sbeed.models.policies import Policy
from sbeed.types import Array, Key, Transition

# The fields that are checked to be finite, in the order of a step; the first is the observation of a reset.
FIELDS = ("observation", "action", "reward", "observation")


class RolloutState(NamedTuple):
    """The environment of one member between two chunks."""

    state: Any
    obs: Array
    episodes: Array  # begun so far
    steps: Array  # taken so far
    total: Array  # return of the episode under way
    noise: Array  # of its last action; 0 at its start


def begin(env: JaxEnv, key: Key) -> RolloutState:
    state = _first_state(env, key, jnp.int32(0))
    quiet = jnp.zeros(env.spec.action_size, jnp.float32)
    return RolloutState(state, env.observe(state), jnp.int32(1), jnp.int32(0), jnp.float32(0), quiet)


def _first_state(env: JaxEnv, key: Key, episode: Array) -> Any:
    return env.reset(jax.random.fold_in(jax.random.fold_in(key, 1), episode))


def collect(
    env: JaxEnv, policy: Policy, now: RolloutState, key: Key, *, length: int, count: Array, exploring: Array
) -> tuple[RolloutState, Transition, Array]:
    """Take `count` steps, at most `length`.

    Returns the state after them, transitions [length, ...], and for each step the return of the episode that ended
    there, NaN if none did. Rows from `count` on are padding. Keys are counted by step and episode, so a path does not
    depend on how it is cut into chunks. exploring: act uniformly at random.
    """

    def one(now: RolloutState, t: Array) -> tuple[RolloutState, tuple[Transition, Array]]:
        k_act, k_step = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, 0), now.steps))
        drawn, noise = policy.act(now.obs, now.noise, k_act)
        raw = jnp.where(exploring, policy.explore(now.obs, k_act), drawn)
        step = env.step(now.state, policy.squash(raw), k_step)
        last, total = step.terminated | step.truncated, now.total + step.reward
        goes_on = RolloutState(step.state, step.obs, now.episodes, now.steps + 1, total, noise)
        state = _first_state(env, key, now.episodes)
        nothing = jnp.zeros_like(total), jnp.zeros_like(noise)
        anew = RolloutState(state, env.observe(state), now.episodes + 1, now.steps + 1, *nothing)
        counts = t < count
        after = _choose(counts, _choose(last, anew, goes_on), now)
        # The observation that the step reached, not the one after a reset.
        transition = Transition(now.obs, raw, step.reward, step.obs, step.terminated, last)
        return after, (transition, jnp.where(last & counts, total, jnp.nan))

    now, (transitions, returns) = jax.lax.scan(one, now, jnp.arange(length))
    return now, transitions, returns


def first_fault(now: RolloutState, chunk: Transition, count: Array) -> Array:
    """Find the first number that is not finite: step * len(FIELDS) + field, or -1 if all numbers are finite.

    chunk: transitions, the first `count` of them real. now: the state after them, whose observation may be a reset's.
    """
    met = jnp.stack([_not_finite(x) for x in (chunk.obs, chunk.action, chunk.reward, chunk.next_obs)], axis=1)
    bad = (met & (jnp.arange(len(met)) < count)[:, None]).ravel()
    at_the_end = jnp.where(_not_finite(now.obs[None])[0], count * len(FIELDS), -1)
    return jnp.where(bad.any(), jnp.argmax(bad), at_the_end)


def _not_finite(x: Array) -> Array:
    """True for each step with a number that is not finite.   [n, ...] -> [n]"""
    return ~jnp.isfinite(x).reshape(len(x), -1).all(1)


def _choose(condition: Array, this: RolloutState, that: RolloutState) -> RolloutState:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), this, that)


def evaluate(env: JaxEnv, policy: Policy, key: Key, *, episodes: int) -> tuple[Array, Array, Array]:
    """Play the deterministic policy; every call plays the same episodes.

    Returns three arrays [episodes]: returns, lengths, and the index in FIELDS of a number that was not finite, which
    ended the episode, or -1.
    """

    def one(k: Key) -> tuple[Array, Array, Array]:
        k_reset, k_steps = jax.random.split(k)

        def unfinished(carry: tuple) -> Array:
            return ~carry[-1]

        def step(carry: tuple) -> tuple:
            state, total, length, _, _ = carry
            action = policy.squash(policy.mode(env.observe(state)))
            after = env.step(state, action, jax.random.fold_in(k_steps, length))
            fault = _fault(action, after.reward, after.obs)
            over = after.terminated | after.truncated | (fault >= 0)
            return after.state, total + after.reward, length + 1, fault, over

        state = env.reset(k_reset)
        sound = jnp.isfinite(env.observe(state)).all()
        start = (state, jnp.float32(0), jnp.int32(0), jnp.where(sound, -1, 0), ~sound)
        _, total, length, fault, _ = jax.lax.while_loop(unfinished, step, start)
        return total, length, fault

    return jax.vmap(one)(jax.vmap(lambda e: jax.random.fold_in(key, e))(jnp.arange(episodes)))


def _fault(action: Array, reward: Array, obs: Array) -> Array:
    """The index in FIELDS of a number that is not finite after a step; -1 if all are finite."""
    bad = jnp.stack([jnp.array(False), *(~jnp.isfinite(x).all() for x in (action, reward, obs))])
    return jnp.where(bad.any(), jnp.argmax(bad), -1)
