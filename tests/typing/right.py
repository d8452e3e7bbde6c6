"""What a user writes: clean under `mypy --strict` and pyright."""

import gymnasium

from sbeed import DDPG, PCL, SAC, SBEED, TRPO, Algorithm, Dataset, DualAC, Logger, load_dataset


def stop(agent: SBEED) -> bool:
    return agent.metrics["train_return"] < -200


agent = SBEED(
    "MlpPolicy", "Pendulum-v1", seed=None, gamma=0.98, hidden=(64, 64), preset="default", eval_env="Pendulum-v1"
)
learned: SBEED = agent.learn(10_000, stop, out="runs/pendulum")
mean: float = learned.evaluate(episodes=3).mean_return
discount: float = agent.config.gamma
size: int = agent.config.batch_size
agent.set_logger(Logger("log.jsonl"))
agent.save("pendulum")
loaded: SBEED = SBEED.load("pendulum", env=gymnasium.make("Pendulum-v1"))
data: Dataset = load_dataset("data")
agents: list[Algorithm] = [
    PCL("RbfPolicy", "Pendulum-v1", preset="paper", behaviour=agent),
    TRPO(env="Pendulum-v1", preset="npg"),
    DualAC(env="Pendulum-v1"),
    DDPG("MlpPolicy", "Pendulum-v1"),
    SAC("MlpPolicy", "Pendulum-v1", noise=0.1),
    SBEED(preset="offline").fit(data, 1000),
]
