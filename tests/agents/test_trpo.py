"""TRPO: advantages by hand, and the trust region as a law."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sbeed.agents.trpo import agent, equations
from sbeed.agents.trpo.config import TRPOConfig
from sbeed.models.features import Identity
from sbeed.models.nets import MLP
from sbeed.models.policies import Gaussian, LinearGaussian
from sbeed.ops.weighted import standardized
from tests.agents.offline import BOX, DISCRETE, assert_close

SMALL = TRPOConfig(
    hidden=(8,), features=10, V_updates=5, V_batch_size=16, steps_per_iteration=32, replay_capacity=32, gamma=0.9
)


# ------------------------------------------------------------------------------------------------- advantages


def test_advantages_by_hand():
    # gamma = gae_lambda = 1/2, so an advantage passes on a quarter of the one after it.
    #        goes on   terminates   time limit   goes on   the data end
    r = [1.0, 2.0, 3.0, 4.0, 5.0]
    v = [1.0, 2.0, 3.0, 4.0, 5.0]
    v_next = [2.0, 8.0, 6.0, 5.0, 4.0]
    terminated = [False, True, False, False, False]
    last = [False, True, True, False, False]
    # Errors r + v_next / 2 - v: 1 + 1 - 1 = 1;  2 + 0 - 2 = 0;  3 + 3 - 3 = 3;  4 + 2.5 - 4 = 2.5;  5 + 2 - 5 = 2.
    expected = [1 + 0 / 4, 0, 3, 2.5 + 2 / 4, 2]
    got = equations.advantages(*(jnp.array(x) for x in (r, v, v_next, terminated, last)), gamma=0.5, gae_lambda=0.5)
    np.testing.assert_allclose(got, expected)


def test_standardized_advantages_ignore_what_does_not_count_and_survive_a_constant():
    x, weight = jnp.array([99.0, 1.0, 2.0, 3.0]), jnp.array([0.0, 1.0, 1.0, 1.0]) / 3
    np.testing.assert_allclose(standardized(x, weight)[1:], np.array([-1, 0, 1]) * np.sqrt(1.5), rtol=1e-6)
    np.testing.assert_allclose(standardized(jnp.full(4, 7.0), weight), 0, atol=1e-6)


# ------------------------------------------------------------------------------------------------- the step


def _round(key, pi, spec, steps=64):
    """Data of pi itself, with advantages that the policy can do something about."""
    k_obs, k_action, k_advantage = jax.random.split(key, 3)
    obs = jax.random.normal(k_obs, (steps, 3), jnp.float32)
    action, log_pi = pi.sample(obs, k_action)
    first = action[:, 0] if spec is BOX else action
    advantage = jnp.tanh(first * obs[:, 0]) + 0.3 * jax.random.normal(k_advantage, (steps,), jnp.float32)
    weight = jnp.full(steps, 1 / steps, jnp.float32)
    return agent.Round(obs, action, log_pi, standardized(advantage, weight), weight, jnp.int32(steps))


@partial(jax.jit, static_argnums=(0, 1))
def _steps(config, spec, radii):
    """What steps of these radii come to, from a policy far from its small beginning, where KL is nearly quadratic."""
    leaves, tree = jax.tree.flatten(agent.init(config, spec, jax.random.key(0)).pi)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    pi = jax.tree.unflatten(tree, [x + 0.5 * jax.random.normal(k, x.shape, x.dtype) for x, k in zip(leaves, keys)])
    seen = _round(jax.random.key(2), pi, spec)
    return jax.vmap(lambda radius: agent.step_pi(replace(config, kl_radius=radius), pi, seen)[1])(radii)


RADII = jnp.array([1e-3, 1e-2, 0.1, 1.0, 10.0], jnp.float32)


@pytest.mark.parametrize(("spec", "policy"), [(BOX, "mlp"), (BOX, "rbf"), (DISCRETE, "mlp")])
def test_a_step_stays_in_its_region_and_does_not_lower_the_surrogate(spec, policy):
    after = _steps(replace(SMALL, policy=policy), spec, RADII)
    assert (after["kl"] <= RADII).all()
    assert (after["surrogate"] > -1e-6).all()  # advantages have mean 0, and so has the surrogate before the step
    assert (after["kl"][:3] > 0.3 * RADII[:3]).all()
    assert after["surrogate"][2] > 0.05


def test_the_natural_policy_gradient_promises_no_radius():
    after = _steps(replace(SMALL, line_search=False, fisher_ridge=1e-4), BOX, RADII)
    assert (after["kl"] > 1.1 * RADII).any()


def test_the_closed_form_and_conjugate_gradients_take_the_same_step():
    net = MLP((3, 2), key=jax.random.key(0))  # no hidden layer: linear in (s, 1)
    log_std = jnp.array([-0.5, 0.2], jnp.float32)
    weights = jnp.concatenate([net.weights[0], net.biases[0][None]])
    config = replace(SMALL, fisher_ridge=0.0)
    closed, products = LinearGaussian(Identity(3), weights, log_std), Gaussian(net, log_std)
    seen = _round(jax.random.key(1), products, BOX)
    step = jax.jit(lambda pi: agent.step_pi(config, pi, seen))
    (one, of_one), (two, of_two) = step(closed), step(products)
    assert not np.allclose(one.weights, closed.weights, atol=1e-3)
    assert_close(one.distribution(seen.obs), two.distribution(seen.obs), 1e-4)
    assert_close(of_one, of_two, 1e-4)
