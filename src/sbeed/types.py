"""Names for the arrays that travel between floors."""

from typing import TypeAlias

import jax

Array: TypeAlias = jax.Array
Key: TypeAlias = jax.Array  # a PRNG key from jax.random.key
Scalar: TypeAlias = float | jax.Array  # a float that may be traced
