"""The scales of observations and rewards."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.agents.shared import running_scales
from sbeed.data import replay as ring
from sbeed.models.features import FourierFeatures
from sbeed.models.nets import MLP
from sbeed.models.policies import Gaussian, LinearGaussian, Normalized
from sbeed.types import EnvSpec, Transition

SPEC = EnvSpec("box", 3, "box", 2, None)
CONFIG = SimpleNamespace(
    normalize_observations=True,
    normalize_rewards=False,
    on_policy=False,
    steps_per_iteration=256,
    replay_capacity=1024,
)
LOG_STD = jnp.full(2, -2.0, jnp.float32)


def rescaled():
    """Scales before and after a round of states with another mean and deviation, and the replay that has them."""
    old = running_scales.init(3)
    old = old._replace(observations=old.observations.update(jax.random.normal(jax.random.key(1), (4096, 3))))
    obs = 2 * jax.random.normal(jax.random.key(2), (1024, 3), jnp.float32) + 1
    path = Transition(obs, jnp.zeros((1024, 2)), jnp.zeros(1024), obs, jnp.zeros(1024, bool), jnp.zeros(1024, bool))
    replay = ring.insert(ring.empty(SPEC, 1024), path)
    return old, running_scales.observe(CONFIG, old, replay), replay


def moved(pi, other, old, new, replay):
    return jnp.mean(Normalized(pi, old.observations).kl(Normalized(other, new.observations), replay.data.obs))


def test_a_policy_of_random_features_does_on_new_scales_what_it_did():
    old, new, replay = rescaled()
    phi = eqx.tree_at(lambda f: f.bandwidth, FourierFeatures(3, 100, key=jax.random.key(3)), jnp.float32(3))
    pi = LinearGaussian(phi, 0.3 * jax.random.normal(jax.random.key(4), (phi.size, 2)), LOG_STD)
    slow = LinearGaussian(phi, 0.3 * jax.random.normal(jax.random.key(5), (phi.size, 2)), LOG_STD)
    carried = running_scales.carried(CONFIG, old, new, (pi, slow), replay)
    for before, after in zip((pi, slow), carried):
        assert moved(before, before, old, new, replay) > 1
        assert moved(before, after, old, new, replay) < 0.02 * moved(before, before, old, new, replay)


def test_networks_stay_as_they_are():
    old, new, replay = rescaled()
    pi = Gaussian(MLP((3, 8, 2), key=jax.random.key(6), activation="tanh"), LOG_STD)
    assert running_scales.carried(CONFIG, old, new, (pi,), replay) == (pi,)
