"""Running scales of observations and of the discounted return. They are data, never trained."""

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models import forward
from sbeed.types import Array, Scalar


class Normalizer(eqx.Module):
    """x -> clip((x - mean) / sqrt(var + 1e-8), -10, 10) with the mean and variance of all rows seen; x before any."""

    count: Array  # []
    mean: Array  # [n]
    var: Array  # [n]

    def __init__(self, size: int):
        self.count, self.mean, self.var = jnp.float32(0), jnp.zeros(size, jnp.float32), jnp.ones(size, jnp.float32)

    def update(self, x: Array, there: Array | None = None) -> "Normalizer":
        """Update the statistics by the rows of x.   there: mask of the rows that count, None for all.   x: [N, n], [N]

        Chan's merge of two samples: no sum of squares is kept, so a mean far from zero costs no digits.
        """
        x, number = jax.lax.stop_gradient(x), x.shape[0] if there is None else there.sum()
        which = None if there is None else there[:, None]
        count = self.count + number
        new = number / count  # the share of the new rows
        shift = jnp.mean(x, 0, where=which) - self.mean
        mean = self.mean + new * shift
        var = (1 - new) * self.var + new * jnp.var(x, 0, where=which) + new * (1 - new) * shift**2
        return eqx.tree_at(lambda n: (n.count, n.mean, n.var), self, (count, mean, var))

    def at_least(self, std: Scalar) -> "Normalizer":
        """The same, but that it divides by no less than `std`: what is nearly always constant stays small."""
        return eqx.tree_at(lambda n: n.var, self, jnp.maximum(self.var, jnp.square(std)))

    @property
    def inverse_std(self) -> Array:
        return 1 / jnp.sqrt(self.var + 1e-8)

    def __call__(self, x: Array) -> Array:
        """[..., n] -> [..., n]"""
        mean, inverse_std = jax.lax.stop_gradient((self.mean, self.inverse_std))
        return jnp.where(self.count > 0, forward.standardize(mean, inverse_std, x, jnp), x)


class ReturnScale(eqx.Module):
    """The standard deviation of G_t = r_t + gamma G_{t-1}, over all steps seen; G starts from 0 in every episode.

    Rewards are divided by it to bring V to the order of 1. No mean is subtracted: a shift would change the task.
    """

    seen: Normalizer  # of G, as rows of one number
    open: Array  # G of the episode under way: carried from one chunk to the next

    def __init__(self) -> None:
        self.seen, self.open = Normalizer(1), jnp.float32(0)

    def update(self, reward: Array, last: Array, gamma: Scalar, there: Array | None = None) -> "ReturnScale":
        """Update by consecutive steps of one path.   there: mask of the steps that count, None for all.   each [N]"""

        def step(before: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
            r, ends, counts = now
            G = (r + gamma * before).astype(before.dtype)
            return jnp.where(counts, jnp.where(ends, 0, G), before), G

        counts = jnp.ones_like(last) if there is None else there
        carried, G = jax.lax.scan(step, self.open, jax.lax.stop_gradient((reward, last, counts)))
        return eqx.tree_at(lambda s: (s.seen, s.open), self, (self.seen.update(G[:, None], there), carried))

    @property
    def scale(self) -> Array:
        """At least 1e-8; 1 before there are data, and while every return is the same: then nothing is known.   []"""
        mean, var = self.seen.mean[0], self.seen.var[0]
        known = (self.seen.count > 0) & (var > 1e-10 * mean**2)  # more than rounding
        return jax.lax.stop_gradient(jnp.where(known, jnp.maximum(jnp.sqrt(var), 1e-8), 1))
