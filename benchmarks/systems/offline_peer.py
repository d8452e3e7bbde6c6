"""TD3+BC or CQL of d3rlpy with its own settings on the arrays of a dataset, in slices of updates.

offline_peer td3+bc|cql ARRAYS.npz MODEL.pt [--seed SEED] [--gamma GAMMA]: the model is where a slice leaves what was
learned, and where the next one finds it.
"""

import argparse
import sys
import time
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path

from benchmarks.processes import Answer, serve

SAVE_EVERY = 60  # seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=("td3+bc", "cql"))
    parser.add_argument("arrays", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gamma", type=float, default=0.99)
    given = parser.parse_args()

    import numpy as np

    with np.load(given.arrays, allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    with redirect_stdout(sys.stderr):  # d3rlpy prints while it is imported
        import d3rlpy
        import torch

        torch.set_num_threads(1)
        dataset = d3rlpy.dataset.MDPDataset(**columns)
        obs = columns["observations"]
        scaler = d3rlpy.preprocessing.StandardObservationScaler(mean=obs.mean(0), std=obs.std(0) + 1e-3)
        make = {"td3+bc": d3rlpy.algos.TD3PlusBCConfig, "cql": d3rlpy.algos.CQLConfig}[given.system]
        config = make(gamma=given.gamma, observation_scaler=scaler)
        steps = given.model.with_suffix(".steps")  # how many the model has made
        done = int(steps.read_text()) if steps.exists() else 0
        d3rlpy.seed(given.seed + 1000 * done)  # a slice of its own draws
        algo = config.create(device="cpu:0")
        algo.build_with_dataset(dataset)
        if done:
            algo.load_model(str(given.model))
            algo.set_grad_step(done)

    def save() -> None:
        new = given.model.with_suffix(".new")
        algo.save_model(str(new))
        new.replace(given.model)
        steps.write_text(str(algo.grad_step))

    def train(updates: int, seconds: float) -> Answer:
        begin = saved = time.monotonic()
        before, spent = algo.grad_step, time.process_time()
        while algo.grad_step < updates and time.monotonic() - begin < seconds:
            algo.update(dataset.sample_transition_batch(config.batch_size))
            if time.monotonic() - saved > SAVE_EVERY:
                save()
                saved = time.monotonic()
        made = algo.grad_step - before
        save()
        return {"updates": algo.grad_step, "ms_per_update": 1e3 * (time.process_time() - spent) / max(1, made)}

    def act(obs: list[float]) -> Answer:
        return {"action": algo.predict(np.array([obs], np.float32))[0].tolist()}

    told = {
        "versions": f"d3rlpy {version('d3rlpy')}, torch {version('torch')}",
        "settings": {"networks": "256 x 256", "batch": config.batch_size, "gamma": given.gamma},
    }
    serve({"train": train, "act": act}, told=told)


if __name__ == "__main__":
    main()
