"""The score of the first action alone: by hand, what it needs, and what it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from sbeed.envs.tabular import equal_actions, garnet, garnets, two_state
from sbeed.theory.claim import draw
from sbeed.theory.claims import first_action_credit
from sbeed.theory.claims.first_action_credit import Form, steps
from sbeed.theory.enumerate import paths
from sbeed.theory.operators import soft_optimum

LAM = 0.1


def slopes(mdp, k, lam, form):
    """(V, logits) in one vector -> the learner's steps there, in one vector."""
    p, (_, tables) = paths(mdp, k), ravel_pytree((jnp.zeros_like(mdp.mu), jnp.zeros_like(mdp.pi_b)))

    def of(x):
        found = steps(mdp, p, *tables(x), lam, form)
        return jnp.concatenate([found.V, found.logits.ravel()])

    return of


def optimum(mdp, lam):
    return ravel_pytree(tuple(soft_optimum(mdp, lam)))[0]


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_steps_by_hand(kappa):
    # As in test_multi_step: one state, two equal actions, gamma .3, lam .5, V = 2, two steps: delta = .630546. V's
    # slope is 2 nu (kappa gamma^2 - 1); equal actions have no slope between them.
    mdp = equal_actions(gamma=0.3)
    found = steps(mdp, paths(mdp, 2), jnp.array([2.0]), jnp.zeros((1, 2)), 0.5, Form(1.0, 1.0, kappa))
    nu = 0.65 * np.log(2) + 0.18 - 2
    np.testing.assert_allclose(found.nu, nu, rtol=1e-12)
    np.testing.assert_allclose(found.V, 2 * nu * (0.09 * kappa - 1), rtol=1e-12)
    np.testing.assert_allclose(found.logits, 0.0, atol=1e-12)


def test_only_the_first_action_has_credit():
    # pi_b is uniform, pi = (e, 1 - e) and one state: E[weight | a_0] = nu(a_0), so the slope in logit 0 is
    # -2 lam (nu(0) (1 - e) - nu(1) e) / 2, whatever the actions after it were.
    mdp, e = equal_actions(gamma=0.3), 0.8
    logits = jnp.log(jnp.array([[e, 1 - e]]))
    found = steps(mdp, paths(mdp, 3), jnp.array([2.0]), logits, 0.5, Form(0.6, 0.3, 1.0))
    expected = -0.5 * (found.nu[0, 0] * (1 - e) - found.nu[0, 1] * e)
    np.testing.assert_allclose(found.logits, [[expected, -expected]], rtol=1e-12)


def test_on_data_with_a_memory_a_wrong_pair_stands():
    (mdp, p), lam, form = first_action_credit.with_a_memory(), 0.5, Form(1.0, 1.0, 1.0)
    np.testing.assert_allclose(p.weight.sum(), 1.0, rtol=1e-12)
    logits = jnp.log(jnp.array([[0.9, 0.1]]))
    # gamma V - V - lam log pi(a) = +-x: V = -lam (log .9 + log .1) / (2 (1 - gamma)) = 7.7003, V* = 4.4333.
    V = -lam * logits.sum(-1) / (2 * (1 - mdp.gamma))
    there = steps(mdp, p, V, logits, lam, form)
    assert max(jnp.abs(x).max() for x in there) < 1e-12
    np.testing.assert_allclose(V - soft_optimum(mdp, lam).V, 3.2671, atol=1e-4)
    # The optimum stands there too. On data of a uniform pi_b, which has no memory, that pair has a slope.
    at_best = steps(mdp, p, *soft_optimum(mdp, lam), lam, form)
    assert max(jnp.abs(x).max() for x in at_best) < 1e-12
    assert jnp.abs(steps(mdp, paths(mdp, 5), V, logits, lam, form).logits).max() > 0.1


@pytest.mark.parametrize(
    ("eta", "kappa", "k", "error"),
    [
        (1.0, 1.0, 3, 0.0),
        (0.1, 0.0, 3, 0.0),
        (0.0, 0.0, 1, 0.0),
        # With less than the whole dual and V's whole gradient noise biases it, as it does PCL.
        (0.0, 1.0, 1, 0.7545),
        (0.1, 1.0, 1, 0.7184),
        (0.0, 1.0, 3, 0.3357),
        (0.1, 1.0, 3, 0.3175),
        (0.5, 1.0, 3, 0.2212),
    ],
)
def test_where_the_steps_end_on_a_noisy_mdp(eta, kappa, k, error):
    mdp = two_state(noise=0.5)
    best, g = optimum(mdp, LAM), slopes(mdp, k, LAM, Form(1.0, eta, kappa))

    @jax.jit
    def solution():
        # Newton's steps on g = 0; the shortest, as a shift of a state's logits does nothing.
        newton = lambda _, x: x - jnp.linalg.pinv(jax.jacobian(g)(x), rtol=1e-9) @ g(x)
        return jax.lax.fori_loop(0, 20, newton, best)

    x = solution()
    np.testing.assert_allclose(g(x), 0.0, atol=1e-10)
    np.testing.assert_allclose(jnp.abs(x - best)[:2].max(), error, atol=1e-4)


@pytest.mark.parametrize(("k", "is_gradient"), [(1, True), (2, False), (3, False)])
def test_it_is_a_gradient_for_one_step_alone(k, is_gradient):
    mdp = garnet(jax.random.key(0), 3, 2)
    J = jax.jit(jax.jacobian(slopes(mdp, k, LAM, Form(1.0, 1.0, 1.0))))(optimum(mdp, LAM))
    asymmetry = jnp.abs(J - J.T).max() / jnp.abs(J).max()
    assert asymmetry < 1e-10 if is_gradient else asymmetry > 0.01


@pytest.mark.parametrize(("eta", "kappa"), [(1.0, 1.0), (1.0, 0.5), (0.1, 0.0)])
def test_small_steps_lead_back_to_the_optimum(eta, kappa):
    mdps, keys = garnets(jax.random.key(0), 20, states=3, actions=2), jax.random.split(jax.random.key(1), 20)

    def jacobian(mdp, key):
        lam = draw(mdp, key).lam
        return jax.jacobian(slopes(mdp, 3, lam, Form(0.9, eta, kappa)))(optimum(mdp, lam))

    J = jax.jit(jax.vmap(jacobian))(mdps, keys)
    slowest = np.sort(np.linalg.eigvals(np.asarray(J)).real)
    # Three directions, a shift of a state's logits each, do nothing.
    np.testing.assert_allclose(slowest[:, :3], 0.0, atol=1e-12)
    assert slowest[:, 3].min() > 1e-8
