"""What several agents' players are made of, and how they step."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from sbeed.models.features import FourierFeatures, Identity
from sbeed.models.nets import MLP
from sbeed.models.policies import (
    Categorical,
    Gaussian,
    LinearCategorical,
    LinearGaussian,
    Policy,
    TanhGaussian,
)
from sbeed.ops.prox import capped_step_size, natural_gradient_by_products
from sbeed.types import Array, EnvSpec, Key, Scalar


def traced_floats(config: type) -> type:
    """Decorates a config: its float fields may be traced, so that members may differ in them; the rest is static."""
    floats = [f.name for f in fields(config) if f.type in (float, "float")]
    static = [f.name for f in fields(config) if f.name not in floats]
    return jax.tree_util.register_dataclass(config, data_fields=floats, meta_fields=static)


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
    """Actions as vectors: what the environment gets of a box, one-hot if discrete."""
    return pi.squash(action) if spec.action_kind == "box" else jax.nn.one_hot(action, spec.action_size)


def optimizer(kind: str, step_size: Scalar, max_grad_norm: float | None = None) -> optax.GradientTransformation:
    """kind: "adam" or "sgd"."""
    rule = optax.adam(step_size) if kind == "adam" else optax.sgd(step_size)
    return rule if max_grad_norm is None else optax.chain(optax.clip_by_global_norm(max_grad_norm), rule)


def stepped(rule: optax.GradientTransformation, player: Any, opt: optax.OptState, g: Any) -> tuple[Any, optax.OptState]:
    """A player's new parameters and its optimiser's new state."""
    change, opt = rule.update(g, opt)
    return eqx.apply_updates(player, change), opt


def cloned(
    pi: Policy, draw: Callable[[Key], tuple[Array, Array]], key: Key, *, steps: int, step_size: Scalar
) -> Policy:
    """Who made the data, as a policy of pi's kind: maximum likelihood by Adam, in steps that shrink to nothing.

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


def with_bandwidth(model: Any, width: Array) -> Any:
    """The model with random features of that bandwidth, if it is made of such; otherwise as it is."""
    if not isinstance(getattr(model, "features", None), FourierFeatures):
        return model
    return eqx.tree_at(lambda m: m.features.bandwidth, model, width)


def follow(slow: Any, fast: Any, rate: Scalar) -> Any:
    """The slow copy, a share `rate` nearer to what it follows."""
    return jax.tree.map(lambda x, y: x + rate * (y - x), slow, fast)


def as_vector(pi: Policy) -> tuple[Array, Callable[[Array], Policy]]:
    """What is trained of a policy, and what makes a policy of such a vector again.

    Random features stay out of it: a policy and its successor then share them, and what they say of a state is
    computed once for both.
    """
    trained = jax.tree.map(lambda _: True, pi)
    if hasattr(pi, "features"):
        trained = eqx.tree_at(lambda p: p.features, trained, jax.tree.map(lambda _: False, pi.features))
    moving, still = eqx.partition(pi, trained)
    vector, rebuild = ravel_pytree(moving)
    return vector, lambda v: eqx.combine(rebuild(v), still)


def natural_gradient(pi: Policy, obs: Array, g: Any, *, ridge: Scalar) -> tuple[Array, Array, Any]:
    """F^-1 g and g as vectors, and what makes a policy of one again.   obs: [..., n]"""
    states = obs.reshape(-1, obs.shape[-1])
    flat, rebuild = as_vector(pi)
    flat_g, _ = as_vector(g)
    if isinstance(pi, LinearGaussian):
        return as_vector(pi.natural_gradient(states, g, ridge))[0], flat_g, rebuild
    found = natural_gradient_by_products(lambda w: jnp.mean(pi.kl(rebuild(w), states)), flat, flat_g, damping=ridge)
    return found.x, flat_g, rebuild


def kl_step(pi: Policy, obs: Array, g: Any, *, step_size: Scalar, kl_radius: Scalar, ridge: Scalar) -> Policy:
    """The natural gradient step of pi, no longer than `kl_radius` allows."""
    direction, flat_g, rebuild = natural_gradient(pi, obs, g, ridge=ridge)
    size = capped_step_size(flat_g, direction, step_size=step_size, kl_radius=kl_radius)
    return rebuild(as_vector(pi)[0] - size * direction)
