"""Moments under a weight vector: probabilities [N], zero where an array of fixed length holds nothing that counts."""

import jax.numpy as jnp

from sbeed.types import Array


def mean(x: Array, weight: Array) -> Array:
    """E[x].   [N], [N] -> []"""
    return jnp.sum(weight * x)


def variance(x: Array, weight: Array) -> Array:
    """E[(x - E[x])^2].   [N], [N] -> []"""
    return mean((x - mean(x, weight)) ** 2, weight)


def standardized(x: Array, weight: Array) -> Array:
    """(x - E[x]) / sqrt(Var[x]), 0 where there is no variance.   [N], [N] -> [N]"""
    return (x - mean(x, weight)) / jnp.sqrt(variance(x, weight) + 1e-8)


def explained_variance(error: Array, goal: Array, weight: Array) -> Array:
    """1 - Var[error] / Var[goal].   [N] each -> []"""
    return 1 - variance(error, weight) / jnp.maximum(variance(goal, weight), 1e-8)
