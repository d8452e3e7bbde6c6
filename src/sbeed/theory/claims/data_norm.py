"""The norm of the analysis."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, finite_mdp
from sbeed.theory.claim import ROUNDING, Claim, Statement, at_most, equal, every
from sbeed.theory.operators import state_norm
from sbeed.types import Array, Key


def smallest_ratio(mdp: FiniteMDP) -> Array:
    """min over V != 0 of ||V||_{mu pi_b} / ||V||_mu: the smallest singular value of I - gamma P in these norms."""
    gram = jax.hessian(lambda V: state_norm(mdp, V) ** 2)(jnp.ones(mdp.states)) / 2
    scale = jnp.sqrt(mdp.mu)
    return jnp.sqrt(jnp.linalg.eigvalsh(gram / scale / scale[:, None])[0])


def check(mdp: FiniteMDP, key: Key) -> Claim:
    """||c V|| = |c| ||V||, ||V + W|| <= ||V|| + ||W||, and ||V|| = 0 only for V = 0, in two quantities:

    any mu > 0: at a state where |V| is largest every action has |gamma E[V(s')] - V(s)| >= (1 - gamma) ||V||_inf, so
        ||V||_{mu pi_b} >= sqrt(min mu) (1 - gamma) ||V||_inf;
    mu stationary under pi_b: by Jensen over the action and over s', ||V||_{mu pi_b} >= (1 - gamma) ||V||_mu; constants
        attain it, so over *all* V the smallest ratio of the two norms is 1 - gamma exactly.
    """
    V, W, logits = jax.random.normal(key, (3, 40, mdp.states))
    c = W[:, :1]
    elsewhere = dataclasses.replace(mdp, mu=jax.nn.softmax(2 * logits[0]))

    def norm(V: Array) -> Array:
        return jax.vmap(lambda V: state_norm(elsewhere, V))(V)

    floor = jnp.sqrt(elsewhere.mu.min()) * (1 - mdp.gamma) * jnp.abs(V).max(-1)
    return every(
        equal(norm(c * V), jnp.abs(c[:, 0]) * norm(V), 1e-12),
        at_most((norm(V + W) / (norm(V) + norm(W))).max(), 1.0),
        at_most((floor / norm(V)).max(), 1.0),
        equal(smallest_ratio(mdp), 1 - mdp.gamma, 1e-10),
    )


def counterexample() -> Claim:
    """Two states that lead to themselves, the second without weight: V = (0, 1) is not zero, but its norm is."""
    mdp = finite_mdp(np.eye(2)[:, None], np.zeros((2, 1)), mu=[1.0, 0.0])
    V = jnp.array([0.0, 1.0])
    return at_most((1 - mdp.gamma) * jnp.abs(V).max(), ROUNDING + state_norm(mdp, V))


STATEMENT = Statement(
    name="data_norm",
    says="||V||_{mu pi_b} is a norm: at least sqrt(min mu) (1 - gamma) ||V||_inf, and on a path (1 - gamma) ||V||_mu",
    labels=("sec:analysis",),
    check=check,
    without="mu(s) > 0 everywhere: a state without weight is not seen",
    counterexample=counterexample,
    stationary=True,
)
