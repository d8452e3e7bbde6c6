"""An agent's learned state as named arrays, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from sbeed.storage.tensors import named_tensors


def replaced(state: Any, parameters: Mapping[str, Any], exact_match: bool) -> Any:
    """Replace arrays of a state by their names; raise a one-line ValueError for those that do not fit.

    exact_match: all of them must be given
    """
    known = named_tensors(state)
    strange, missing = [name for name in parameters if name not in known], [n for n in known if n not in parameters]
    if strange or (exact_match and missing):
        which = f"has no {strange[0]!r}" if strange else f"needs {missing[0]!r} too (exact_match)"
        raise ValueError(f"parameters: the agent {which}; get_parameters() names them")
    leaves = [_fitting(name, parameters[name], old) if name in parameters else old for name, old in known.items()]
    return jax.tree.unflatten(jax.tree.structure(state), leaves)


def _fitting(name: str, value: Any, old: np.ndarray) -> np.ndarray:
    array = np.asarray(value)
    if array.shape != old.shape or not np.can_cast(array.dtype, old.dtype, "same_kind"):
        raise ValueError(f"parameters: {name} is {old.dtype} {old.shape}, got {array.dtype} {array.shape}")
    return array.astype(old.dtype)
