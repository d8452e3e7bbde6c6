"""Steps of an agent's parts: optimisers, slow copies, natural gradients under a cap of KL."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from sbeed.models.policies import LinearGaussian, Policy
from sbeed.ops.prox import capped_step_size, natural_gradient_by_products
from sbeed.types import Array, Scalar


def optimizer(kind: str, step_size: Scalar, max_grad_norm: float | None = None) -> optax.GradientTransformation:
    """kind: "adam" or "sgd"."""
    rule = optax.adam(step_size) if kind == "adam" else optax.sgd(step_size)
    return rule if max_grad_norm is None else optax.chain(optax.clip_by_global_norm(max_grad_norm), rule)


def stepped(rule: optax.GradientTransformation, player: Any, opt: optax.OptState, g: Any) -> tuple[Any, optax.OptState]:
    """Take one optimiser step; returns the new parameters and the optimiser's new state."""
    change, opt = rule.update(g, opt)
    return eqx.apply_updates(player, change), opt


def follow(slow: Any, fast: Any, rate: Scalar) -> Any:
    """Move the slow copy by the share `rate` towards `fast` (Polyak averaging)."""
    return jax.tree.map(lambda x, y: x + rate * (y - x), slow, fast)


def as_vector(pi: Policy) -> tuple[Array, Callable[[Array], Policy]]:
    """Flatten the trained parameters of a policy; returns the vector and a function from a vector back to a policy.

    Random features are left out: a policy and its successor share them, so they are computed once per state for both.
    """
    trained = jax.tree.map(lambda _: True, pi)
    if hasattr(pi, "features"):
        trained = eqx.tree_at(lambda p: p.features, trained, jax.tree.map(lambda _: False, pi.features))
    moving, still = eqx.partition(pi, trained)
    vector, rebuild = ravel_pytree(moving)
    return vector, lambda v: eqx.combine(rebuild(v), still)


def natural_gradient(pi: Policy, obs: Array, g: Any, *, ridge: Scalar) -> tuple[Array, Array, Any]:
    """F^-1 g and g as vectors, and the function from a vector back to a policy.   obs: [..., n]"""
    states = obs.reshape(-1, obs.shape[-1])
    flat, rebuild = as_vector(pi)
    flat_g, _ = as_vector(g)
    if isinstance(pi, LinearGaussian):
        return as_vector(pi.natural_gradient(states, g, ridge))[0], flat_g, rebuild
    found = natural_gradient_by_products(lambda w: jnp.mean(pi.kl(rebuild(w), states)), flat, flat_g, damping=ridge)
    return found.x, flat_g, rebuild


def kl_step(pi: Policy, obs: Array, g: Any, *, step_size: Scalar, kl_radius: Scalar, ridge: Scalar) -> Policy:
    """Take the natural gradient step of pi, no longer than `kl_radius` allows."""
    direction, flat_g, rebuild = natural_gradient(pi, obs, g, ridge=ridge)
    size = capped_step_size(flat_g, direction, step_size=step_size, kl_radius=kl_radius)
    return rebuild(as_vector(pi)[0] - size * direction)
