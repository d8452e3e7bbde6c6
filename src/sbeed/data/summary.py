"""A summary of a dataset, as plain data."""

from typing import Any

import numpy as np

from sbeed.data.dataset import Dataset
from sbeed.data.mixing import mixing


def summary(dataset: Dataset) -> dict[str, Any]:
    found, data = mixing(dataset), dataset.data
    columns = {"obs": np.asarray(data.obs), "action": np.asarray(data.action)}
    ranges = {
        (name if x.ndim == 1 else f"{name}[{i}]"): _spread(one)
        for name, x in columns.items()
        for i, one in enumerate(x[None] if x.ndim == 1 else x.T)
    }
    return {
        "name": dataset.name,
        "transitions": len(dataset),
        "episodes": len(dataset.starts),
        "single_path": dataset.single_path,
        "terminations": int(np.sum(data.terminated)),
        "return": _spread(dataset.returns),
        "length": _spread(dataset.lengths),
        "reward": _spread(np.asarray(data.reward)),
        "ranges": ranges,
        "mixing": {**found._asdict(), "effective": found.effective, "rate": found.rate},
        "origin": dict(dataset.origin),
    }


def _spread(x: np.ndarray) -> dict[str, float]:
    x = x.astype(np.float64)
    return {"min": float(x.min()), "mean": float(x.mean()), "max": float(x.max()), "std": float(x.std())}
