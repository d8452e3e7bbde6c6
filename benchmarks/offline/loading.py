"""A million transitions of Hopper's sizes: read, compared with their hashes, and checked."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sbeed.data.dataset import from_arrays
from sbeed.training.datafiles import load_dataset, save_dataset

COUNT, OBSERVATION, ACTION = 1_000_000, 11, 3


def measure(seed: int) -> dict[str, Any]:
    """Processor time, so that what else runs on the machine does not count."""
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((COUNT + 1, OBSERVATION)).astype(np.float32)
    last = np.arange(COUNT) % 1000 == 999
    columns = {"obs": obs[:-1], "action": rng.uniform(-1, 1, (COUNT, ACTION)), "reward": rng.standard_normal(COUNT)}
    data = from_arrays({**columns, "next_obs": obs[1:], "terminated": np.zeros(COUNT), "last": last})
    with tempfile.TemporaryDirectory() as place:
        save_dataset(Path(place) / "d", data)
        load_dataset(Path(place) / "d")  # what is imported on the way
        begin = time.process_time()
        load_dataset(Path(place) / "d")
        return {"study": "loading", "seed": seed, "processor_seconds": time.process_time() - begin}
