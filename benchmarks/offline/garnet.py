"""How the error of V falls with the length of one path: the setting of the theorem, as a dataset.

With tables and eta = 1 the empirical loss reaches its zero at the soft optimum of the empirical MDP. With networks for
Q and its dual, what they miss of that optimum is the optimisation's error, and is told beside the statistical one.
"""

from bisect import bisect

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from benchmarks.rows import Measurement
from sbeed import SBEED
from sbeed.agents.q_sbeed.equations import V_of
from sbeed.data.dataset import Dataset, from_arrays
from sbeed.envs.tabular import FiniteMDP, garnet
from sbeed.theory.operators import soft_optimum
from sbeed.theory.sampling import empirical_mdp

LENGTHS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
PATHS = 8  # of each seed, each with a garnet of its own
STATES, ACTIONS, GAMMA, LAM = 5, 3, 0.9, 0.1
UPDATES = 12_800  # of networks
NETWORKS = {
    **{"gamma": GAMMA, "lam": LAM, "adapt_lam": False, "eta": 1.0, "k": 1, "twins": 1, "hidden": (64, 64)},
    **{"Q_step_size": 3e-3, "dual_ridge": 0.0, "normalize_observations": False, "batch_size": 1_024},
}


@jax.jit
def _soft_V(mdp: FiniteMDP) -> jax.Array:
    return soft_optimum(mdp, LAM).V


def path(mdp: FiniteMDP, T: int, seed: int) -> Dataset:
    """One path of T steps of pi_b."""
    rng = np.random.default_rng(seed)
    P, pi_b, R = (np.asarray(x) for x in (mdp.P, mdp.pi_b, mdp.R))
    act = [list(np.cumsum(row)[:-1]) for row in pi_b]
    go = [[list(np.cumsum(row)[:-1]) for row in rows] for rows in P]
    states, actions, s = [0] * (T + 1), [0] * T, int(rng.integers(STATES))
    states[0] = s
    for t, (u, w) in enumerate(rng.random((T, 2)).tolist()):
        a = bisect(act[s], u)
        s = bisect(go[s][a], w)
        actions[t], states[t + 1] = a, s
    S, A = np.array(states), np.array(actions)
    ends = np.arange(T) == T - 1
    columns = {"obs": S[:-1], "action": A, "reward": R[S[:-1], A], "next_obs": S[1:]}
    both = {"observation_space": spaces.Discrete(STATES), "action_space": spaces.Discrete(ACTIONS)}
    return from_arrays({**columns, "terminated": np.zeros(T), "last": ends}, **both, name="garnet")


def empirical(mdp: FiniteMDP, data: Dataset, T: int) -> jax.Array:
    """V^ of the first T steps."""
    d = data.data
    cells = (np.asarray(d.obs[:T]) * ACTIONS + np.asarray(d.action[:T])) * STATES + np.asarray(d.next_obs[:T])
    counts = np.bincount(cells, minlength=STATES * ACTIONS * STATES).reshape(STATES, ACTIONS, STATES)
    return _soft_V(empirical_mdp(mdp, jnp.asarray(counts)))


def measure(seed: int) -> Measurement:
    errors = []
    for i in range(PATHS):
        mdp = garnet(jax.random.fold_in(jax.random.key(seed), i), STATES, ACTIONS, gamma=GAMMA)
        data, V = path(mdp, LENGTHS[-1], seed * PATHS + i), _soft_V(mdp)
        errors.append([float(jnp.abs(empirical(mdp, data, T) - V).max()) for T in LENGTHS])
    x = np.log(LENGTHS) - np.log(LENGTHS).mean()
    slopes = np.log(errors) @ x / (x @ x)
    return {"study": "garnet", "seed": seed, "T": LENGTHS, "errors": errors, "slopes": slopes.tolist()}


def measure_networks(seed: int) -> Measurement:
    """Q as a network on paths of several lengths: their sup errors to V^ and to V*_lam."""
    mdp = garnet(jax.random.fold_in(jax.random.key(seed), 0), STATES, ACTIONS, gamma=GAMMA)
    errors = [_errors(mdp, seed, T) for T in LENGTHS[::2]]
    return {"study": "garnet, networks", "seed": seed, "updates": UPDATES, "errors": errors}


def _errors(mdp: FiniteMDP, seed: int, T: int) -> dict[str, float]:
    data = path(mdp, T, seed * PATHS)
    agent = SBEED(seed=seed, **NETWORKS).fit(data, UPDATES)
    found = V_of(agent._learned().Q(jnp.eye(STATES)).min(0), lam=LAM)
    V, V_hat = _soft_V(mdp), empirical(mdp, data, T)
    gaps = {"statistical": V_hat - V, "optimisation": found - V_hat, "total": found - V}
    return {"T": T, **{key: float(jnp.abs(x).max()) for key, x in gaps.items()}}
