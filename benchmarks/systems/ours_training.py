"""Our trainer, in slices of steps.

ours_training ENV --seeds 0 1 ... [--fields JSON] [--workers N]: a population if there are several seeds;
fields are what differs from the preset.
"""

import argparse
import json
import time

from benchmarks.processes import Answer, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("env")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--fields", type=json.loads, default={})
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()

    import jax

    from sbeed.training.run import RunSpec, make_trainer

    trainer = make_trainer(RunSpec(given.env, fields=given.fields), seeds=given.seeds, workers=given.workers)
    config = trainer.config
    per_round = config.steps_per_iteration

    def train(steps: int) -> Answer:
        """Whole rounds, for a shorter one has as many updates."""
        begin, before = time.perf_counter(), trainer.step
        while trainer.step < before + steps:
            trainer.advance(per_round)
        return {"seconds": time.perf_counter() - begin, "steps": trainer.step - before}

    def evaluate(episodes: int) -> Answer:
        return {"return": float(trainer.evaluate(episodes).returns.mean())}

    serve(
        {"train": train, "evaluate": evaluate},
        device=jax.devices()[0].device_kind,
        warmup=config.warmup,
        settings={
            "preset": "default",
            "networks": f"pi, V, slow copies of both, twin Q, {' x '.join(map(str, config.hidden))}",
            "batch": config.batch_size,
            "k": config.k,
            "updates per step": config.updates_per_iteration / per_round,
            "in rounds of": per_round,
            "gamma": config.gamma,
            "warm-up": config.warmup,
            "workers": given.workers,
        },
    )
    trainer.close()


if __name__ == "__main__":
    main()
