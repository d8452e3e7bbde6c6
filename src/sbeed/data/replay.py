"""A ring of the newest transitions, on the device."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.types import Array, EnvSpec, Key, Transition


class Replay(eqx.Module):
    """Transitions in the order in which they happened; the oldest give way.   Arrays are [capacity, ...]"""

    data: Transition
    written: Array  # transitions ever written

    @property
    def capacity(self) -> int:
        return self.data.reward.shape[0]

    @property
    def size(self) -> Array:
        return jnp.minimum(self.written, self.capacity)


def empty(spec: EnvSpec, capacity: int) -> Replay:
    obs = jnp.zeros((capacity, spec.observation_size), jnp.float32)
    if spec.action_kind == "box":
        action = jnp.zeros((capacity, spec.action_size), jnp.float32)
    else:
        action = jnp.zeros(capacity, jnp.int32)
    flag = jnp.zeros(capacity, bool)
    # Distinct buffers, for a donated one may stand in a program once only.
    data = Transition(obs, action, jnp.zeros(capacity, jnp.float32), jnp.copy(obs), flag, jnp.copy(flag))
    return Replay(data, jnp.zeros((), jnp.int32))


def insert(replay: Replay, chunk: Transition) -> Replay:
    """Write consecutive transitions [n, ...]; the capacity must be a multiple of n, so that no chunk wraps."""
    n = chunk.reward.shape[0]
    if replay.capacity % n:
        raise ValueError(f"replay capacity {replay.capacity} is not a multiple of the chunk's {n} transitions")
    at = replay.written % replay.capacity

    def write(ring: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(ring, new.astype(ring.dtype), at, axis=0)

    return Replay(jax.tree.map(write, replay.data, chunk), replay.written + n)


def sample(replay: Replay, key: Key, batch: int, length: int) -> Transition:
    """Windows of `length` consecutive transitions, their starts uniform: [batch, length, ...]

    A window may run over an episode's end: `last` says where its path stops.
    """
    oldest = jnp.where(replay.written > replay.capacity, replay.written % replay.capacity, 0)
    start = jax.random.randint(key, (batch, 1), 0, replay.size - length + 1)
    index = (oldest + start + np.arange(length)) % replay.capacity
    return jax.tree.map(lambda ring: ring[index], replay.data)
