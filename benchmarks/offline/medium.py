"""Learning from what our own agents did: `python -m benchmarks.offline.medium DATA --env Hopper-v5`

For a dataset that `sbeed record` made of our runs: the presets `offline` and `default`, and a clone of the behaviour
alone, beside what the behaviour earned. docs/offline.md has the commands that make such datasets.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import rows
from benchmarks.__main__ import commit, machine
from sbeed import SBEED, load_dataset
from sbeed.data.dataset import Dataset
from sbeed.training.datafiles import fingerprint
from sbeed.training.rundir import read_rows

# pi begins as the clone and takes no step: one round is enough.
SYSTEMS: dict[str, dict[str, Any]] = {
    "offline": {"preset": "offline"},
    "default": {"preset": "default"},
    "clone": {"preset": "offline", "pi_step_size": 0.0, "clone_steps": 20_000},
}


def measure(data: Dataset, env: str, system: str, seed: int, updates: int, **fields: Any) -> dict[str, Any]:
    agent = SBEED(seed=seed, **SYSTEMS[system], **fields)
    with tempfile.TemporaryDirectory() as place:
        count = 1 if system == "clone" else updates
        agent.fit(data, count, eval_env=env, out=Path(place) / "run", checkpoint_every=0)
        found = read_rows(Path(place) / "run")
    agent.close()
    return {
        **{"study": f"medium, {env}", "system": system, "seed": seed, "updates": count, "data": fingerprint(data)},
        **{"data_return": float(data.returns.mean()), "return": found[-1]["return"], "origin": dict(data.origin)},
        "curve": [[row["step"], row["return"]] for row in found],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--env", required=True)
    parser.add_argument("--updates", type=int, default=300_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--out", type=Path, default=Path("results/offline/medium.jsonl"))
    given = parser.parse_args()
    data = load_dataset(given.data)
    for system in SYSTEMS:
        for seed in range(given.seeds):
            row = measure(data, given.env, system, seed, given.updates, gamma=given.gamma)
            rows.write(given.out, [*rows.read(given.out), {**row, "commit": commit(), "machine": machine()}])
            print(
                f"{system}, seed {seed}: {row['return']:.1f}; the behaviour earned {row['data_return']:.1f}", flush=True
            )


if __name__ == "__main__":
    main()
