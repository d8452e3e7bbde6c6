"""Discounted sums over every window of a path at once.

One step of a path maps the value of what follows to the value of what is here: x -> c + g x. Maps compose
associatively, so a k-step target is k of them composed, and the target of *every* start position costs one pass over
the path, whatever k is. Nothing is ever divided or subtracted: no digits are lost at small discounts or long paths.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.types import Array

UNROLLED = 16  # paths up to this length need no loop: on a GPU each turn of one costs more than the arithmetic


class Affine(NamedTuple):
    """The map x -> c + g x, elementwise."""

    c: Array
    g: Array

    def __call__(self, x: Array) -> Array:
        return self.c + self.g * x


def compose(first: Affine, then: Affine) -> Affine:
    """x -> first(then(x)): `first` is the earlier step of the path."""
    return Affine(first.c + first.g * then.c, first.g * then.g)


def compose_to_end(steps: Affine) -> Affine:
    """[..., L] -> [..., L]: position t holds steps t, t+1, ..., L-1 composed."""
    return _time_last(_tails(_time_first(steps)))


def compose_windows(steps: Affine, k: int) -> Affine:
    """[..., L] -> [..., L]: position t holds steps t, ..., t+k-1 composed (those past the end are left out).

    Blocks of k: a window is the tail of its block and the head of the next, both known from one scan each.
    """
    length = steps.c.shape[-1]
    k = min(k, length)
    blocks = -(-length // k) + 1  # one block of identities at the end, for windows that reach past it
    pad = [(0, 0)] * (steps.c.ndim - 1) + [(0, blocks * k - length)]
    padded = Affine(jnp.pad(steps.c, pad), jnp.pad(steps.g, pad, constant_values=1))
    in_blocks = _time_first(Affine(*(x.reshape(*x.shape[:-1], blocks, k) for x in padded)))
    next_heads = Affine(*(jnp.roll(x, -1, axis=-1) for x in _heads(in_blocks)))
    windows = _time_last(compose(_tails(in_blocks), next_heads))
    return Affine(*(x.reshape(*x.shape[:-2], blocks * k)[..., :length] for x in windows))


def _tails(steps: Affine) -> Affine:
    """[L, ...] -> [L, ...]: steps t, ..., L-1 composed."""

    def prepend(tail: Affine, step: Affine) -> tuple[Affine, Affine]:
        longer = compose(step, tail)
        return longer, longer

    return jax.lax.scan(prepend, _identity_like(steps), steps, reverse=True, unroll=steps.c.shape[0] <= UNROLLED)[1]


def _heads(steps: Affine) -> Affine:
    """[L, ...] -> [L, ...]: steps 0, ..., t-1 composed; the identity at t = 0."""

    def append(head: Affine, step: Affine) -> tuple[Affine, Affine]:
        return compose(head, step), head

    return jax.lax.scan(append, _identity_like(steps), steps, unroll=steps.c.shape[0] <= UNROLLED)[1]


def _identity_like(steps: Affine) -> Affine:
    return Affine(jnp.zeros_like(steps.c[0]), jnp.ones_like(steps.g[0]))


def _time_first(steps: Affine) -> Affine:
    return Affine(*(jnp.moveaxis(x, -1, 0) for x in steps))


def _time_last(steps: Affine) -> Affine:
    return Affine(*(jnp.moveaxis(x, 0, -1) for x in steps))
