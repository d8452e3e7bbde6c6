"""Distributions over raw actions: normal in a box, finite where actions are discrete."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sbeed.types import Array, Key, Scalar

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))


class Normal(eqx.Module):
    """u ~ N(mean, diag exp(2 log_std)); with `squashed` the density is that of tanh(u), at u."""

    mean: Array  # [..., A]
    log_std: Array  # [..., A]
    squashed: bool = eqx.field(static=True)
    persistence: Scalar = 0.0  # correlation of an action's noise with that of the action before it

    def sample(self, key: Key) -> tuple[Array, Array]:
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        u = self.mean + jnp.exp(self.log_std) * noise
        return u, self._log_density(u, noise)

    def sample_after(self, noise: Array, key: Key) -> tuple[Array, Array]:
        """Draw an action whose noise is correlated with `noise`; also returns its noise, in standard deviations."""
        fresh = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        noise = self.persistence * noise + jnp.sqrt(1 - jnp.square(self.persistence)) * fresh
        return self.mean + jnp.exp(self.log_std) * noise, noise

    def log_prob(self, u: Array) -> Array:
        return self._log_density(u, (u - self.mean) * jnp.exp(-self.log_std))

    def _log_density(self, u: Array, noise: Array) -> Array:
        log_normal = jnp.sum(-0.5 * noise * noise - self.log_std - HALF_LOG_2PI, axis=-1)
        return log_normal - _log_tanh_slope(u) if self.squashed else log_normal

    def mode(self) -> Array:
        return self.mean

    def kl(self, other: "Normal") -> Array:
        """Sum over dimensions of (exp(2 d) - 1) / 2 - d + z^2 / 2,  d = log(std / std'),  z = (mean - mean') / std'

        The same before and after tanh, because a bijection keeps KL. Without expm1 a small KL would be all rounding.
        """
        d = self.log_std - other.log_std
        z = (self.mean - other.mean) * jnp.exp(-other.log_std)
        return jnp.sum(0.5 * jnp.expm1(2 * d) - d + 0.5 * z * z, axis=-1)


def _log_tanh_slope(u: Array) -> Array:
    """log prod_i (1 - tanh(u_i)^2), without the cancellation."""
    return jnp.sum(2 * (jnp.log(2.0) - u - jax.nn.softplus(-2 * u)), axis=-1)


class Finite(eqx.Module):
    """A distribution over actions 0, 1, ..."""

    log_probs: Array  # [..., actions]

    def sample(self, key: Key) -> tuple[Array, Array]:
        action = jax.random.categorical(key, self.log_probs)
        return action, self.log_prob(action)

    def sample_after(self, noise: Array, key: Key) -> tuple[Array, Array]:
        """Draw an action independent of the one before it."""
        return self.sample(key)[0], noise

    def log_prob(self, action: Array) -> Array:
        return jnp.take_along_axis(self.log_probs, action[..., None].astype(int), axis=-1)[..., 0]

    def mode(self) -> Array:
        return jnp.argmax(self.log_probs, axis=-1)

    def kl(self, other: "Finite") -> Array:
        return jnp.sum(jnp.exp(self.log_probs) * (self.log_probs - other.log_probs), axis=-1)
