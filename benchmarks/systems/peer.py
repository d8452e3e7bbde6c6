"""An agent of Stable-Baselines3, its contrib package or SBX with its own defaults, in slices of steps.

peer sb3|contrib|sbx AGENT ENV CORES [--seed SEED] [--warmup STEPS] [--round STEPS]: random steps before the first
update; steps between updates, of which there are as many.
"""

import argparse
import time
from importlib import import_module
from importlib.metadata import version
from typing import Any

from benchmarks.processes import Answer, serve

LIBRARIES = {"sb3": "stable_baselines3", "contrib": "sb3_contrib", "sbx": "sbx"}
PACKAGES = {"sb3": "stable-baselines3", "contrib": "sb3-contrib", "sbx": "sbx-rl"}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("agent", choices=("sac", "ddpg", "trpo"))
    parser.add_argument("env")
    parser.add_argument("cores", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--warmup", type=int)
    parser.add_argument("--round", type=int)
    given = parser.parse_args()

    import torch

    torch.set_num_threads(given.cores)
    make = getattr(import_module(LIBRARIES[given.library]), given.agent.upper())
    engine = "jax" if given.library == "sbx" else "torch"
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    scene = make_vec_env(given.env, seed=given.seed + 1000)
    chosen: dict[str, Any] = {} if given.warmup is None else {"learning_starts": given.warmup}
    chosen |= {} if given.round is None else {"train_freq": given.round, "gradient_steps": given.round}
    if given.agent == "ddpg":  # it has no noise of its own: the usual one
        from stable_baselines3.common.noise import NormalActionNoise

        (actions,) = scene.action_space.shape
        chosen["action_noise"] = NormalActionNoise([0.0] * actions, [0.1] * actions)
    model = make("MlpPolicy", given.env, seed=given.seed, device="cpu", **chosen)

    def train(steps: int) -> Answer:
        begin, before = time.perf_counter(), model.num_timesteps
        model.learn(steps, reset_num_timesteps=False)
        return {"seconds": time.perf_counter() - begin, "steps": model.num_timesteps - before}

    def evaluate(episodes: int) -> Answer:
        mean, _ = evaluate_policy(model, scene, n_eval_episodes=episodes, deterministic=True)
        return {"return": float(mean)}

    serve(
        {"train": train, "evaluate": evaluate},
        versions=f"{PACKAGES[given.library]} {version(PACKAGES[given.library])}, {engine} {version(engine)}",
        settings=settings(given.agent, model),
    )


def settings(agent: str, model: Any) -> dict[str, Any]:
    """What sets the amount of arithmetic."""
    if agent == "trpo":
        return {
            "networks": "pi and V, 64 x 64",
            "batch of V": model.batch_size,
            "steps of a round": model.n_steps,
            "epochs of V": model.n_critic_updates,
            "conjugate gradients": model.cg_max_steps,
            "KL radius for each dimension of an action": model.target_kl,
            "gamma": model.gamma,
        }
    hidden = getattr(model.policy, "net_arch", None) or model.policy.net_arch_pi
    critics = "twin Q" if agent == "sac" else "Q"
    return {
        "networks": f"pi, {critics} and their slow copies, {' x '.join(map(str, hidden))}",
        "batch": model.batch_size,
        "k": 1,
        "updates per step": model.gradient_steps / model.train_freq.frequency,
        "in rounds of": model.train_freq.frequency,
        "gamma": model.gamma,
        "warm-up": model.learning_starts,
    }


if __name__ == "__main__":
    main()
