"""Make policies from a config's sizes, from random features, or as a clone of data."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from sbeed.agents.shared.steps import optimizer, stepped
from sbeed.models.features import FourierFeatures, Identity
from sbeed.models.nets import MLP
from sbeed.models.policies import Categorical, Gaussian, LinearCategorical, LinearGaussian, Policy, TanhGaussian
from sbeed.types import Array, EnvSpec, Key, Scalar


def make_policy(
    spec: EnvSpec,
    key: Key,
    *,
    kind: str,
    squash: bool,
    hidden: tuple[int, ...],
    activation: str,
    features: int,
    initial_std: Scalar,
    orthogonal: bool = False,
) -> Policy:
    """kind: "mlp", "rbf" (linear in random features) or "table" (of discrete observations). orthogonal: MLP's."""
    box = spec.action_kind == "box"
    log_std = jnp.full(spec.action_size, jnp.log(initial_std), jnp.float32)
    if kind == "mlp":
        outputs = 2 * spec.action_size if box and squash else spec.action_size
        # A small last layer: the first policy is nearly the same in every state.
        sizes = (spec.observation_size, *hidden, outputs)
        net = MLP(sizes, key=key, activation=activation, last_scale=0.01, orthogonal=orthogonal)
        if not box:
            return Categorical(net)
        return TanhGaussian(net) if squash else Gaussian(net, log_std)
    if kind == "table":
        phi: FourierFeatures | Identity = Identity(spec.observation_size, constant=False)
    else:
        phi = FourierFeatures(spec.observation_size, features, key=key)
    weights = jnp.zeros((phi.size, spec.action_size), jnp.float32)
    return LinearGaussian(phi, weights, log_std) if box else LinearCategorical(phi, weights)


def encoded(spec: EnvSpec, pi: Policy, action: Array) -> Array:
    """Actions as vectors: as the environment receives them for a box, one-hot if discrete."""
    return pi.squash(action) if spec.action_kind == "box" else jax.nn.one_hot(action, spec.action_size)


def with_bandwidth(model: Any, width: Array) -> Any:
    """Set the bandwidth of the model's random features; a model without any is returned unchanged."""
    if not isinstance(getattr(model, "features", None), FourierFeatures):
        return model
    return eqx.tree_at(lambda m: m.features.bandwidth, model, width)


def cloned(
    pi: Policy, draw: Callable[[Key], tuple[Array, Array]], key: Key, *, steps: int, step_size: Scalar
) -> Policy:
    """Clone the policy that made the data: maximum likelihood for one of pi's kind, with Adam steps that fall to zero.

    draw: a batch of observations and raw actions.
    """

    def step(carry: tuple[Policy, optax.OptState], i: Array) -> tuple[tuple[Policy, optax.OptState], None]:
        pi, opt = carry
        obs, action = draw(jax.random.fold_in(key, i))
        g = eqx.filter_grad(lambda pi: -jnp.mean(pi.log_prob(obs, action)))(pi)
        left = jnp.asarray(1 - i / steps, jnp.float32)
        return stepped(optimizer("adam", step_size * left), pi, opt, g), None

    start = pi, optimizer("adam", 0.0).init(eqx.filter(pi, eqx.is_array))
    return jax.lax.scan(step, start, jnp.arange(steps))[0][0]
