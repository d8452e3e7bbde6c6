"""Dual-AC's game on garnets: where its saddle points are, what alpha is there, and what path regularisation does."""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.envs.tabular import garnets
from sbeed.theory import dual_ac
from sbeed.theory.dual_ac import Point
from sbeed.theory.operators import evaluate, hard_optimum

MDPS = jax.jit(lambda key: garnets(key, 20, states=3, actions=2, branching=2, on_path=False))(jax.random.key(0))
V_STAR = jax.jit(jax.vmap(hard_optimum))(MDPS)
V_BEHAVIOUR = jax.vmap(lambda mdp: evaluate(mdp, mdp.pi_b))(MDPS)
LENGTHS = [0, 2]


@partial(jax.jit, static_argnums=(0, 3))
def _found(point, V_path, eta_V, k):
    return jax.vmap(partial(point, eta_V=eta_V, k=k))(MDPS, V_path)


def _game(z, V_path, eta_V, k):
    return jax.vmap(partial(dual_ac.lagrangian, eta_V=eta_V, k=k))(MDPS, z, V_path)


@partial(jax.jit, static_argnums=3)
def _played(z, V_path, eta_V, k):
    """The gradients in V, alpha and the probabilities of pi; the game; and what it were if pi never tossed a coin."""
    others = jax.nn.one_hot(jnp.array(list(product(range(2), repeat=3))), 2)
    play = lambda pi: _game(z._replace(pi=jnp.broadcast_to(pi, z.pi.shape)), V_path, eta_V, k)
    return jax.grad(lambda z: _game(z, V_path, eta_V, k).sum())(z), play(z.pi), jax.vmap(play)(others)


def _is_a_saddle_point(z, V_path, eta_V, k, *, normalised=False):
    assert (z.alpha > 0).all()
    g, here, others = _played(z, V_path, eta_V, k)
    np.testing.assert_allclose(g.V, 0, atol=1e-10)
    # An alpha held to its sum may not gain by moving mass; a free one may not gain at all.
    spare = g.alpha.mean(-1, keepdims=True) if normalised else 0
    np.testing.assert_allclose(g.alpha - spare, 0, atol=1e-10)
    np.testing.assert_allclose(jnp.sum(z.pi * g.pi, -1), g.pi.max(-1), atol=1e-10)  # no action pays more than pi's
    # For k > 0 the game is no longer linear in pi: no policy of all there are must gain, not only those nearby.
    assert (others.max(0) <= here + 1e-10).all()


@pytest.mark.parametrize("k", LENGTHS)
def test_the_saddle_point(k):
    z = _found(dual_ac.saddle_point, V_BEHAVIOUR, 0.0, k)
    _is_a_saddle_point(z, V_BEHAVIOUR, 0.0, k)
    np.testing.assert_allclose(z.V, V_STAR, atol=1e-12)
    np.testing.assert_allclose(z.alpha.sum(-1), 1)
    # alpha* by its series: the discounted visits of pi* at times 0, k + 1, 2 (k + 1), ...; for k = 0 at all times.
    chain, gamma = np.einsum("nsa,nsat->nst", z.pi, MDPS.P), np.array(MDPS.gamma)[:, None]
    visits, here = 0, np.array(MDPS.mu)
    for time in range(600):
        if time % (k + 1) == 0:
            visits = visits + (1 - gamma ** (k + 1)) * gamma**time * here
        here = np.einsum("ns,nst->nt", here, chain)
    np.testing.assert_allclose(z.alpha, visits, atol=1e-10)


@pytest.mark.parametrize("k", LENGTHS)
def test_maximised_over_alpha_the_game_is_the_return_of_pi(k):
    # V's minimum is finite only where alpha is pi's flow; there V has no say, and what is left is pi's own return.
    def at(mdp):
        alpha = dual_ac.flow(mdp, mdp.pi_b, (1 - mdp.gamma ** (k + 1)) * mdp.mu, k)
        return Point(jnp.ones_like(mdp.mu), alpha, mdp.pi_b)

    expected = (1 - MDPS.gamma ** (k + 1)) * jnp.sum(MDPS.mu * V_BEHAVIOUR, -1)
    np.testing.assert_allclose(_game(jax.vmap(at)(MDPS), V_BEHAVIOUR, 0.0, k), expected, atol=1e-12)


@pytest.mark.parametrize("k", LENGTHS)
def test_path_regularisation_adds_to_alpha_and_leaves_V_alone(k):
    z = _found(dual_ac.saddle_point, V_BEHAVIOUR, 2.0, k)
    _is_a_saddle_point(z, V_BEHAVIOUR, 2.0, k)
    np.testing.assert_allclose(z.V, V_STAR, atol=1e-12)
    gap = jnp.sum(MDPS.mu * (V_STAR - V_BEHAVIOUR), -1)
    np.testing.assert_allclose(z.alpha.sum(-1), 1 + 4 * gap / (1 - MDPS.gamma ** (k + 1)))


@pytest.mark.parametrize("k", LENGTHS)
def test_with_alpha_normalised_V_is_shifted(k):
    z = _found(dual_ac.normalised_saddle_point, V_BEHAVIOUR, 0.01, k)
    _is_a_saddle_point(z, V_BEHAVIOUR, 0.01, k, normalised=True)
    np.testing.assert_allclose(z.alpha.sum(-1), 1)
    np.testing.assert_allclose(jnp.sum(MDPS.mu * z.V, -1), jnp.sum(MDPS.mu * V_BEHAVIOUR, -1))
    assert (jnp.ptp(z.V - V_STAR, axis=-1) < 1e-12).all()
    # Once the data are the best policy's own, there is nothing left to be shifted.
    z = _found(dual_ac.normalised_saddle_point, V_STAR, 10.0, k)
    _is_a_saddle_point(z, V_STAR, 10.0, k, normalised=True)
    np.testing.assert_allclose(z.V, V_STAR, atol=1e-12)


def test_strong_regularisation_on_another_policy_s_data_is_not_a_shift():
    # V* less a constant would ask for a negative alpha, and V is the only one that solves the convex problem.
    z = _found(dual_ac.normalised_saddle_point, V_BEHAVIOUR, 10.0, 0)
    assert (z.alpha.min(-1) < 0).mean() > 0.5


@pytest.mark.parametrize("k", LENGTHS)
def test_the_learner_s_goal_is_V_s_minimum_and_its_advantages_are_pi_s_gradient(k):
    def at(mdp, key):
        alpha = jax.random.dirichlet(key, jnp.ones(3))
        pi = jax.nn.softmax(jax.random.normal(key, (3, 2)))
        V = dual_ac.best_V(mdp, alpha, pi, evaluate(mdp, mdp.pi_b), eta_V=0.7, k=k)
        return Point(V, alpha, pi)

    z = jax.jit(jax.vmap(at))(MDPS, jax.random.split(jax.random.key(1), 20))
    g, _, _ = _played(z, V_BEHAVIOUR, 0.7, k)
    np.testing.assert_allclose(g.V, 0, atol=1e-12)
    got = jax.jit(jax.vmap(partial(dual_ac.pi_gradient, k=k)))(MDPS, z)
    of_logits = z.pi * (g.pi - jnp.sum(z.pi * g.pi, -1, keepdims=True))
    np.testing.assert_allclose(got, of_logits, atol=1e-12)
    assert jnp.abs(got).max() > 0.1


@pytest.mark.parametrize("k", LENGTHS)
def test_the_ascent_ends_at_the_saddle_point(k):
    steps = dict(iterations=1000, alpha_step_size=0.3, step_size=1.0)
    z = jax.jit(jax.vmap(partial(dual_ac.ascend, eta_V=1.0, k=k, **steps)))(MDPS)
    best = _found(dual_ac.saddle_point, V_STAR, 0.0, k)
    np.testing.assert_allclose(jax.vmap(evaluate)(MDPS, z.pi), V_STAR, atol=1e-3)
    np.testing.assert_allclose(z.V, V_STAR, atol=0.02)
    np.testing.assert_allclose(z.alpha, best.alpha, atol=0.02)
