"""One long off-policy path of a FiniteMDP, as the paper's analysis has it, and the empirical MDP that it defines."""

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP
from sbeed.types import Array, Key

CHUNK = 1000  # steps whose randomness is drawn at once


def transition_counts(mdp: FiniteMDP, key: Key, lengths: tuple[int, ...]) -> Array:
    """How often (s, a, s') occurred in the first T steps of one path under pi_b, for each T of `lengths`.

    The path starts from mu. lengths: increasing multiples of CHUNK.   [len(lengths), S, A, S]
    """
    states, actions = mdp.states, mdp.actions
    cumulative_pi, cumulative_P = jnp.cumsum(mdp.pi_b, -1), jnp.cumsum(mdp.P, -1)
    cells = states * actions * states

    def step(carry: tuple[Array, Array], uniform: Array) -> tuple[tuple[Array, Array], None]:
        s, counts = carry
        a = jnp.sum(uniform[0] > cumulative_pi[s, :-1])
        s_next = jnp.sum(uniform[1] > cumulative_P[s, a, :-1])
        # Comparing beats scattering: this is vectorised over a batch of paths.
        counts = counts + (jnp.arange(cells) == (s * actions + a) * states + s_next)
        return (s_next, counts), None

    def chunk(carry: tuple[Array, Array], k: Key) -> tuple[tuple[Array, Array], None]:
        return jax.lax.scan(step, carry, jax.random.uniform(k, (CHUNK, 2), jnp.float32))

    k_start, k_path = jax.random.split(key)
    start = jax.random.categorical(k_start, jnp.log(mdp.mu))
    carry = (start, jnp.zeros(cells, jnp.int32))
    snapshots = []
    for i, chunks in enumerate(np.diff((0, *lengths)) // CHUNK):
        carry, _ = jax.lax.scan(chunk, carry, jax.random.split(jax.random.fold_in(k_path, i), int(chunks)))
        snapshots.append(carry[1])
    return jnp.stack(snapshots).reshape(len(lengths), states, actions, states)


def empirical_mdp(mdp: FiniteMDP, counts: Array) -> FiniteMDP:
    """The MDP whose expectations are the path's averages; rewards are a function of (s, a) and so known where visited.

    A pair never visited has weight zero in every objective; its transitions are set uniform to stay a distribution.
    """
    visits = counts.sum(-1)
    P = jnp.where(visits[..., None] > 0, counts / jnp.maximum(visits, 1)[..., None], 1 / mdp.states)
    state_visits = visits.sum(-1)
    pi_b = jnp.where(state_visits[:, None] > 0, visits / jnp.maximum(state_visits, 1)[:, None], 1 / mdp.actions)
    return FiniteMDP(P, mdp.R, state_visits / state_visits.sum(), pi_b, mdp.gamma)
