"""The scales of observations and rewards."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents import scales
from sbeed.data import replay as ring
from sbeed.models.features import Identity
from sbeed.models.policies import LinearGaussian, Normalized
from sbeed.types import EnvSpec, Transition

SPEC = EnvSpec("box", 3, "box", 2, None)
CONFIG = SimpleNamespace(
    normalize_observations=True, normalize_rewards=False, normalizer_kl=1e-3, steps_per_iteration=32
)


def test_the_normaliser_moves_the_policy_no_further_than_asked():
    seen = scales.init(3)
    seen = seen._replace(observations=seen.observations.update(jax.random.normal(jax.random.key(1), (256, 3))))
    obs = 2 * jax.random.normal(jax.random.key(2), (32, 3), jnp.float32) + 1  # another mean and another scale
    path = Transition(obs, jnp.zeros((32, 2)), jnp.zeros(32), obs, jnp.zeros(32, bool), jnp.zeros(32, bool))
    replay = ring.insert(ring.empty(SPEC, 64), path)
    whole = seen.observations.update(obs)

    def observed(log_std):
        pi = LinearGaussian(Identity(3), jnp.ones((4, 2), jnp.float32), jnp.full(2, log_std, jnp.float32))
        after = scales.observe(CONFIG, seen, pi, replay).observations
        assert after.count == 256 + 32
        return after, jnp.mean(Normalized(pi, seen.observations).kl(Normalized(pi, after), obs))

    wide, kl = observed(log_std=8.0)
    np.testing.assert_allclose(wide.mean, whole.mean, rtol=1e-5)
    assert kl < CONFIG.normalizer_kl
    sharp, kl = observed(log_std=-4.0)
    np.testing.assert_allclose(kl, CONFIG.normalizer_kl, rtol=0.1)
    assert jnp.all(jnp.abs(sharp.mean - seen.observations.mean) < 0.1 * jnp.abs(whole.mean - seen.observations.mean))
