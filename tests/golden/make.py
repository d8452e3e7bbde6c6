"""Makes the golden files of this version: `python -m tests.golden.make`. Files of a version that was released stay.

Each is a directory named after the schema of its files: a saved model, and a run that was broken off at step 40 with
checkpoints of steps 16 and 32. What only shows a run (events, the lock) is left out.
"""

import shutil
import tempfile
from pathlib import Path

from benchmarks.reliability import runs

from sbeed import SBEED
from sbeed.training import checkpoints, files

HERE = Path(__file__).parent
MODEL = HERE / f"model_schema_{files.SCHEMA}"
RUN = HERE / f"run_schema_{checkpoints.SCHEMA}"
STEPS = 100


def main() -> None:
    for place in (MODEL, RUN):
        shutil.rmtree(place, ignore_errors=True)
    agent = SBEED(None, "Pendulum-v1", **runs.FIELDS).learn(40)
    agent.save(MODEL)
    with tempfile.TemporaryDirectory() as place:
        runs.break_off(Path(place) / "run", "Pendulum-v1", 40, steps=STEPS)
        shutil.copytree(Path(place) / "run", RUN, ignore=shutil.ignore_patterns("lock", "tensorboard"))


if __name__ == "__main__":
    main()
