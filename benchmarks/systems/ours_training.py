"""Our trainer, in slices of steps.

ours_training ENV --seeds 0 1 ... [--agent NAME] [--fields JSON] [--workers N]: a population if there are several
seeds; fields are what differs from the preset.
"""

import argparse
import json
import time
from typing import Any

from benchmarks.processes import Answer, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("env")
    parser.add_argument("--agent", default="sbeed")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--fields", type=json.loads, default={})
    parser.add_argument("--workers", type=int, default=0)
    given = parser.parse_args()

    import jax

    from sbeed.training.lapack_threads import lapack_on_one_thread
    from sbeed.training.run import RunSpec, make_trainer

    spec = RunSpec(given.env, agent=given.agent, fields=given.fields)
    trainer = make_trainer(spec, seeds=given.seeds, workers=given.workers)
    per_round = trainer.config.steps_per_iteration

    def train(steps: int) -> Answer:
        """Whole rounds, for a shorter one has as many updates."""
        begin, before = time.perf_counter(), trainer.step
        while trainer.step < before + steps:
            trainer.advance(per_round)
        return {"seconds": time.perf_counter() - begin, "steps": trainer.step - before}

    def evaluate(episodes: int) -> Answer:
        by_seed = trainer.evaluate(episodes).returns.mean(1)
        return {"return": float(by_seed.mean()), "by_seed": by_seed.tolist()}

    with lapack_on_one_thread():  # as a run does
        serve(
            {"train": train, "evaluate": evaluate},
            device=jax.devices()[0].device_kind,
            warmup=trainer.config.warmup,
            settings={**settings(given.agent, trainer.config), "workers": given.workers},
        )
    trainer.close()


NETWORKS = {
    "sbeed": "pi, V, slow copies of both, twin Q",
    "sac": "pi, twin Q and their slow copies",
    "ddpg": "pi, Q and their slow copies",
    "trpo": "pi and V",
}


def settings(agent: str, config: Any) -> dict[str, Any]:
    """What sets the amount of arithmetic."""
    networks = f"{NETWORKS[agent]}, {' x '.join(map(str, config.hidden))}"
    if agent == "trpo":
        return {
            "preset": "default",
            "networks": networks,
            "batch of V": config.V_batch_size,
            "steps of a round": config.steps_per_iteration,
            "updates of V": config.V_updates,
            "KL radius": round(config.kl_radius, 6),
            "gamma": config.gamma,
        }
    of_sbeed = {"k": config.k, "long targets": config.long_targets} if agent == "sbeed" else {}
    return {
        "preset": "default",
        "networks": networks,
        "batch": config.batch_size,
        **of_sbeed,
        "updates per step": config.updates_per_iteration / config.steps_per_iteration,
        "in rounds of": config.steps_per_iteration,
        "gamma": config.gamma,
        "warm-up": config.warmup,
    }


if __name__ == "__main__":
    main()
