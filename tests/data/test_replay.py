"""The replay: what goes in comes out, in order, and never across the seam of the ring."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.data import replay
from sbeed.types import EnvSpec, Transition

SPEC = EnvSpec("probe", 1, "box", 1, None)


def _chunk(start, n):
    """Transition t has the number t in every field."""
    t = jnp.arange(start, start + n, dtype=jnp.float32)
    no = jnp.zeros(n, bool)
    return Transition(t[:, None], t[:, None], t, t[:, None] + 1, no, no)


def _filled(chunks, n=4, capacity=16):
    ring = replay.empty(SPEC, capacity)
    for i in range(chunks):
        ring = replay.insert(ring, _chunk(i * n, n))
    return ring


@pytest.mark.parametrize("chunks", [1, 2, 4, 5, 7, 11])
def test_windows_are_consecutive_and_recent(chunks):
    windows = replay.sample(_filled(chunks), jax.random.key(0), 500, 3).reward
    np.testing.assert_array_equal(jnp.diff(windows), 1)  # in order, also over the ring's seam
    oldest = max(0, 4 * chunks - 16)
    assert windows.min() == oldest
    assert windows.max() == 4 * chunks - 1


@pytest.mark.parametrize("chunks", [0, 1, 4, 7])
def test_what_is_put_back_lies_where_it_lay(chunks):
    ring = _filled(chunks)
    kept = jax.device_get(replay.newest(ring, int(ring.size))) if chunks else jax.device_get(_chunk(0, 0))
    jax.tree.map(np.testing.assert_array_equal, replay.refilled(kept, 4 * chunks, 16), ring)
    in_memory = replay.newest_in_memory(jax.device_get(ring), int(ring.size))
    jax.tree.map(np.testing.assert_array_equal, in_memory, kept)


def test_starts_are_uniform():
    starts = replay.sample(_filled(4), jax.random.key(1), 14_000, 3).reward[:, 0]
    counts = np.bincount(starts.astype(int), minlength=14)  # 16 - 3 + 1 starts
    np.testing.assert_allclose(counts, 1000, atol=150)


def test_size_counts_up_to_the_capacity():
    assert _filled(2).size == 8
    assert _filled(7).size == 16


def test_chunks_of_any_length_wrap_around_the_seam():
    ring, written = replay.empty(SPEC, 10), 0
    for n in (4, 7, 1, 10, 3, 9):
        ring, written = replay.insert(ring, _chunk(written, n)), written + n
        held = replay.newest(ring, min(written, 10)).reward
        np.testing.assert_array_equal(held, np.arange(written - len(held), written))


def test_a_chunk_longer_than_the_ring_is_refused():
    with pytest.raises(ValueError, match="a chunk of 11 transitions does not fit into a replay of 10"):
        replay.insert(replay.empty(SPEC, 10), _chunk(0, 11))


def test_only_so_many_of_a_padded_chunk_are_written_by_one_program():
    insert = jax.jit(replay.insert)
    ring = replay.insert(replay.empty(SPEC, 10), _chunk(0, 8))
    for count in (0, 3, 5):
        padded = insert(ring, _chunk(8, 5), count)
        assert padded.written == 8 + count
        np.testing.assert_array_equal(replay.newest(padded, 8).reward, np.arange(count, 8 + count))
    assert insert._cache_size() == 1


def test_windows_among_the_newest_alone():
    sample = jax.jit(lambda newest: replay.sample(_filled(7), jax.random.key(0), 500, 3, newest).reward)
    for newest, oldest in ((5, 23), (16, 12), (1000, 12), (2, 25)):  # 28 written, 16 held; a window needs 3
        windows = sample(newest)
        assert (windows.min(), windows.max()) == (oldest, 27)


def test_the_oldest_stands_in_for_what_is_not_there_yet():
    np.testing.assert_array_equal(replay.newest(_filled(1), 6).reward, [0, 0, 0, 1, 2, 3])


def test_discrete_actions_are_integers():
    spec = EnvSpec("die", 2, "discrete", 5, None)
    assert replay.empty(spec, 8).data.action.dtype == jnp.int32


def test_donated_insert_leaves_one_copy():
    ring = replay.empty(SPEC, 16)
    insert = jax.jit(replay.insert, donate_argnums=0)
    new = insert(ring, _chunk(0, 4))
    assert ring.data.obs.is_deleted()
    assert new.size == 4
