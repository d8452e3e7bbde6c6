"""Learning from one path of a random policy, and from what our own agents did."""

import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.rows import Measurement
from sbeed import SBEED
from sbeed.collect.record_dataset import record_dataset
from sbeed.data.mixing import mixing
from sbeed.storage.datasets import fingerprint
from sbeed.storage.run_dir import read_rows


class Study(NamedTuple):
    env: str
    steps: int  # of the path
    updates: int
    goal: float  # for the mean return of five seeds
    fields: dict[str, Any]  # over the preset's
    single_path: bool = False  # no time limit breaks it


STUDIES = {
    "pendulum": Study("Pendulum-v1", 20_000, 20_000, -250, {"hidden": (64, 64)}),
    "pendulum, unbroken": Study("Pendulum-v1", 20_000, 20_000, -250, {"hidden": (64, 64)}, single_path=True),
    "cartpole": Study("CartPole-v1", 50_000, 40_000, 450, {}),
}


def measure(name: str, preset: str, seed: int) -> Measurement:
    """The path and the agent are of the same seed; nothing is chosen on the way, and the last parameters count."""
    study, begin = STUDIES[name], time.process_time()
    data = record_dataset(study.env, [None], study.steps, seed=seed, single_path=study.single_path)
    with tempfile.TemporaryDirectory() as place:
        agent = SBEED(preset=preset, seed=seed, **study.fields)
        agent.fit(
            data, study.updates, eval_env=study.env, out=Path(place) / "run", evaluate_every=4_000, checkpoint_every=0
        )
        rows = read_rows(Path(place) / "run")
        agent.close()
    found = mixing(data)
    return {
        **{"study": name, "preset": preset, "seed": seed, "transitions": len(data), "data": fingerprint(data)},
        **{"data_return": float(data.returns.mean()), "tau": found.tau, "effective": found.effective},
        "curve": [[row["step"], row["return"]] for row in rows],
        "return": rows[-1]["return"],
        "processor_seconds": time.process_time() - begin,
    }
