"""Action values of boxes of actions."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from sbeed.models.nets import MLP
from sbeed.types import Array, EnvSpec, Key


class Critic(eqx.Module):
    """`twins` networks Q(s, a), stacked: every array of `net` has a leading axis."""

    net: MLP

    def __init__(
        self,
        spec: EnvSpec,
        *,
        hidden: tuple[int, ...],
        activation: str,
        twins: int,
        key: Key,
        last_scale: float = 1.0,
    ):
        """last_scale: factor on the output layer; a small one starts with nearly equal values of all actions."""
        sizes = (spec.observation_size + spec.action_size, *hidden, 1)
        make = partial(MLP, sizes, activation=activation, last_scale=last_scale)
        self.net = jax.vmap(lambda k: make(key=k))(jax.random.split(key, twins))

    def __call__(self, obs: Array, action: Array) -> Array:
        """action: as the environment gets it.   [..., n], [..., A] -> [twins, ...]"""
        x = jnp.concatenate([obs, action], axis=-1)
        return jax.vmap(lambda net: net(x)[..., 0])(self.net)
