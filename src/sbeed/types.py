"""Names of the arrays that modules exchange, and the records that hold them."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import jax

Array: TypeAlias = jax.Array
AnyArray: TypeAlias = Any  # of jax on the device or of numpy on the host
Key: TypeAlias = jax.Array  # a PRNG key from jax.random.key
Scalar: TypeAlias = float | jax.Array  # a float that may be traced


@dataclass(frozen=True)
class EnvSpec:
    """The sizes and the kind of action of an environment.

    Observations are vectors: a Discrete one arrives one-hot. A Box action is a vector in [-1, 1]; the environment's
    adapter maps it to the real bounds.
    """

    name: str
    observation_size: int
    action_kind: Literal["box", "discrete"]
    action_size: int  # dimensions of a box, number of discrete actions
    time_limit: int | None  # steps after which an episode is truncated; None: never


class Transition(NamedTuple):
    """One step, or a batch of them with the same leading axes.

    `last`: the path ends with this step: the episode ended, by termination or by a time limit, or the data
    of that environment pause here. `terminated`: by termination, so V(next_obs) counts as 0. `action` is what the
    policy drew, before any squashing: that is what its log-density scores exactly.
    """

    obs: Array  # [..., observation_size]
    action: Array  # [..., action_size] for a box, [...] integers if discrete
    reward: Array
    next_obs: Array  # the observation really reached, never that of the reset after it
    terminated: Array
    last: Array
