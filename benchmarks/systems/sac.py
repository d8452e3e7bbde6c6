"""SAC of Stable-Baselines3 or of SBX with its own defaults, in slices of steps.

sac sb3|sbx ENV CORES [--seed SEED] [--warmup STEPS] [--round STEPS]: random steps before the first update; steps
between updates, of which there are as many.
"""

import argparse
import time
from importlib.metadata import version

from benchmarks.processes import Answer, serve


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=("sb3", "sbx"))
    parser.add_argument("env")
    parser.add_argument("cores", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--round", type=int)
    given = parser.parse_args()

    import torch

    torch.set_num_threads(given.cores)
    if given.library == "sb3":
        from stable_baselines3 import SAC

        versions = f"stable-baselines3 {version('stable-baselines3')}, torch {version('torch')}"
    else:
        from sbx import SAC

        versions = f"sbx-rl {version('sbx-rl')}, jax {version('jax')}"
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    chosen = {} if given.warmup is None else {"learning_starts": given.warmup}
    chosen |= {} if given.round is None else {"train_freq": given.round, "gradient_steps": given.round}
    model = SAC("MlpPolicy", given.env, seed=given.seed, device="cpu", **chosen)
    scene = make_vec_env(given.env, seed=given.seed + 1000)

    def train(steps: int) -> Answer:
        begin, before = time.perf_counter(), model.num_timesteps
        model.learn(steps, reset_num_timesteps=False)
        return {"seconds": time.perf_counter() - begin, "steps": model.num_timesteps - before}

    def evaluate(episodes: int) -> Answer:
        mean, _ = evaluate_policy(model, scene, n_eval_episodes=episodes, deterministic=True)
        return {"return": float(mean)}

    hidden = getattr(model.policy, "net_arch", None) or model.policy.net_arch_pi
    serve(
        {"train": train, "evaluate": evaluate},
        versions=versions,
        settings={
            "networks": f"pi, twin Q and their slow copies, {' x '.join(map(str, hidden))}",
            "batch": model.batch_size,
            "k": 1,
            "updates per step": model.gradient_steps / model.train_freq.frequency,
            "in rounds of": model.train_freq.frequency,
            "gamma": model.gamma,
            "warm-up": model.learning_starts,
        },
    )


if __name__ == "__main__":
    main()
