"""A million transitions of Hopper's sizes: read, compared with their hashes, checked, and learned from once."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sbeed import SBEED
from sbeed.data.dataset import Dataset, from_arrays
from sbeed.storage.datasets import load_dataset, save_dataset

COUNT, OBSERVATION, ACTION = 1_000_000, 11, 3
BATCH = 10_240  # transitions of an update of the preset `paper`


def million(seed: int) -> Dataset:
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((COUNT + 1, OBSERVATION)).astype(np.float32)
    last = np.arange(COUNT) % 1000 == 999
    columns = {"obs": obs[:-1], "action": rng.uniform(-1, 1, (COUNT, ACTION)), "reward": rng.standard_normal(COUNT)}
    return from_arrays({**columns, "next_obs": obs[1:], "terminated": np.zeros(COUNT), "last": last})


def measure(seed: int) -> dict[str, Any]:
    """Processor time, so that what else runs on the machine does not count."""
    with tempfile.TemporaryDirectory() as place:
        save_dataset(Path(place) / "d", million(seed))
        load_dataset(Path(place) / "d")  # what is imported on the way
        begin = time.process_time()
        load_dataset(Path(place) / "d")
        return {"study": "loading", "seed": seed, "processor_seconds": time.process_time() - begin}


def measure_epoch(seed: int) -> dict[str, Any]:
    """As many updates at the paper's sizes as take a million transitions, and all that `fit` does besides.

    Processor time of all threads: on an idle machine the clock shows no more.
    """
    data, agent = million(seed), SBEED(preset="paper", batch_size=BATCH, seed=seed)
    begin = time.process_time()
    agent.fit(data, -(-COUNT // BATCH))
    spent = time.process_time() - begin
    return {"study": "epoch", "seed": seed, "updates": agent.num_timesteps, "processor_seconds": spent}
