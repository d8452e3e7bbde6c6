"""One long off-policy path of a FiniteMDP, as the paper's analysis has it, and the empirical MDP that it defines."""

import jax
import jax.numpy as jnp

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

    def chunk(i: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        uniforms = jax.random.uniform(jax.random.fold_in(k_path, i), (CHUNK, 2), jnp.float32)
        return jax.lax.scan(step, carry, uniforms)[0]

    def until(carry: tuple[Array, Array], chunks: Array) -> tuple[tuple[Array, Array], Array]:
        carry = jax.lax.fori_loop(chunks[0], chunks[1], chunk, carry)
        return carry, carry[1]

    k_start, k_path = jax.random.split(key)
    start = jax.random.categorical(k_start, jnp.log(mdp.mu))
    ends = jnp.array((0, *lengths)) // CHUNK
    # One loop over the lengths: a loop for each would be compiled for each.
    _, snapshots = jax.lax.scan(until, (start, jnp.zeros(cells, jnp.int32)), jnp.stack([ends[:-1], ends[1:]], axis=1))
    return snapshots.reshape(len(lengths), states, actions, states)


def empirical_mdp(mdp: FiniteMDP, counts: Array) -> FiniteMDP:
    """The MDP whose expectations are the path's averages; rewards are a function of (s, a) and so known where visited.

    A pair never visited has weight zero in every objective; its transitions are set uniform to stay a distribution.
    """
    visits = counts.sum(-1)
    P = jnp.where(visits[..., None] > 0, counts / jnp.maximum(visits, 1)[..., None], 1 / mdp.states)
    state_visits = visits.sum(-1)
    pi_b = jnp.where(state_visits[:, None] > 0, visits / jnp.maximum(state_visits, 1)[:, None], 1 / mdp.actions)
    return FiniteMDP(P, mdp.R, state_visits / state_visits.sum(), pi_b, mdp.gamma)
