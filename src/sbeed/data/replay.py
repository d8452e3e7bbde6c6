"""A ring of the newest transitions, on the device."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.types import Array, EnvSpec, Key, Scalar, Transition


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


def insert(replay: Replay, chunk: Transition, count: Scalar | None = None) -> Replay:
    """Write consecutive transitions [n, ...], n at most the capacity, over the oldest ones.

    count: only so many of them, the first; may be traced, so that a shorter chunk needs no program of its own.
    """
    n = chunk.reward.shape[0]
    if n > replay.capacity:
        raise ValueError(f"a chunk of {n} transitions does not fit into a replay of {replay.capacity}")
    count = n if count is None else count
    steps = jnp.arange(n, dtype=jnp.int32)
    # What is not to be written goes to a place beyond the ring, where a scatter drops it.
    at = jnp.where(steps < count, (replay.written + steps) % replay.capacity, replay.capacity + steps)

    def write(ring: Array, new: Array) -> Array:
        return ring.at[at].set(new.astype(ring.dtype), mode="drop", unique_indices=True)

    return Replay(jax.tree.map(write, replay.data, chunk), replay.written + jnp.asarray(count, jnp.int32))


def forget(replay: Replay) -> Replay:
    """Empty the replay: later samples come from later transitions alone."""
    return Replay(replay.data, jnp.zeros_like(replay.written))


def refilled(newest: Transition, written: int, capacity: int) -> Replay:
    """Rebuild a replay, in numpy, from its newest transitions [n, ...] and the number ever written; places are kept."""
    count = newest.reward.shape[0]

    def place(rows: np.ndarray) -> np.ndarray:
        full = np.zeros((capacity, *rows.shape[1:]), rows.dtype)
        full[np.arange(written - count, written) % capacity] = rows
        return full

    return Replay(jax.tree.map(place, newest), np.int32(written))  # type: ignore[arg-type]


def newest_in_memory(replay: Replay, count: int) -> Transition:
    """The newest `count` transitions of a replay in numpy, which must hold as many; `refilled` takes them."""
    written = int(replay.written)
    index = np.arange(written - count, written) % replay.capacity
    return jax.tree.map(lambda ring: ring[index], replay.data)


def sample(replay: Replay, key: Key, batch: int, length: int, newest: Scalar | None = None) -> Transition:
    """Windows of `length` consecutive transitions, their starts uniform: [batch, length, ...]

    A window may run over an episode's end: `last` says where its path stops. newest: windows from the newest so many
    transitions alone; may be traced. The replay must hold at least `length`.
    """
    eligible = replay.size if newest is None else jnp.clip(newest, length, replay.size).astype(jnp.int32)
    start = replay.written - eligible + jax.random.randint(key, (batch, 1), 0, eligible - length + 1)
    index = (start + np.arange(length)) % replay.capacity
    return jax.tree.map(lambda ring: ring[index], replay.data)


def newest(replay: Replay, count: int) -> Transition:
    """The newest `count` transitions in order; if there are fewer, the oldest is repeated before them."""
    index = replay.written - jnp.minimum(np.arange(count)[::-1] + 1, replay.size)
    return jax.tree.map(lambda ring: ring[index % replay.capacity], replay.data)


def held(replay: Replay, count: int) -> Array:
    """True for the transitions of `newest` that are real, False for the padding before them.   [count]"""
    return jnp.arange(count) >= count - replay.size
