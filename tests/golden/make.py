"""Makes the golden files of this version: `python -m tests.golden.make`. Files of a version that was released stay.

Each is a directory named after the schema of its files: a saved model, and a run that was broken off at step 40 with
checkpoints of steps 16 and 32, a dataset of 30 transitions, and the same as Minari keeps it. What only shows a run
(events, the lock) is left out.
"""

import shutil
import tempfile
from pathlib import Path

from benchmarks.reliability import runs

from sbeed import SBEED
from sbeed.collect.record_dataset import record_dataset
from sbeed.storage import checkpoints, minari
from sbeed.storage.datasets import save_dataset
from sbeed.storage.tensor_folder import DATASET, MODEL

HERE = Path(__file__).parent
SAVED = HERE / f"model_schema_{MODEL.schema}"
RUN = HERE / f"run_schema_{checkpoints.SCHEMA}"
DATA = HERE / f"data_schema_{DATASET.schema}"
MINARI = HERE / "minari_schema_1"
STEPS = 100


def main() -> None:
    for place in (SAVED, RUN, DATA, MINARI):
        shutil.rmtree(place, ignore_errors=True)
    agent = SBEED(None, "Pendulum-v1", **runs.FIELDS).learn(40)
    agent.save(SAVED)
    with tempfile.TemporaryDirectory() as place:
        runs.break_off(Path(place) / "run", "Pendulum-v1", 40, steps=STEPS)
        shutil.copytree(Path(place) / "run", RUN, ignore=shutil.ignore_patterns("lock", "tensorboard"))
    data = record_dataset("Pendulum-v1", [None], 30, names=["random"])
    save_dataset(DATA, data)
    minari.write(MINARI, data)


if __name__ == "__main__":
    main()
