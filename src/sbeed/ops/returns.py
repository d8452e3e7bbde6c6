"""Discounted sums over every window of a path at once.

One step of a path maps the value of what follows to the value of what is here: x -> c + g x. Maps compose
associatively, so a k-step target is k of them composed, and the target of *every* start position costs one pass over
the path, whatever k is. Nothing is ever divided or subtracted: no digits are lost at small discounts or long paths.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sbeed.types import Array


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
    # A reverse scan hands its operator the later element first.
    return jax.lax.associative_scan(lambda late, early: compose(early, late), steps, reverse=True, axis=-1)


def compose_windows(steps: Affine, k: int) -> Affine:
    """[..., L] -> [..., L]: position t holds steps t, ..., t+k-1 composed (those past the end are left out).

    Blocks of k: a window is the tail of its block and the head of the next, both known from one scan each.
    """
    length = steps.c.shape[-1]
    k = min(k, length)
    blocks = -(-length // k) + 1  # one block of identities at the end, for windows that reach past it
    pad = [(0, 0)] * (steps.c.ndim - 1) + [(0, blocks * k - length)]
    padded = Affine(jnp.pad(steps.c, pad), jnp.pad(steps.g, pad, constant_values=1))
    in_blocks = Affine(*(x.reshape(*x.shape[:-1], blocks, k) for x in padded))

    tails = compose_to_end(in_blocks)
    heads = jax.lax.associative_scan(compose, in_blocks, axis=-1)
    # The window at offset j of block b ends at offset j-1 of block b+1; at offset 0 the block's own tail is all of it.
    shifted = Affine(*(jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 0)])[..., :-1] for x in heads))
    next_heads = Affine(*(jnp.roll(x, -1, axis=-2) for x in shifted))
    is_whole = jnp.arange(k) == 0
    rest = Affine(jnp.where(is_whole, 0, next_heads.c), jnp.where(is_whole, 1, next_heads.g))
    windows = compose(tails, rest)
    return Affine(*(x.reshape(*x.shape[:-2], blocks * k)[..., :length] for x in windows))
