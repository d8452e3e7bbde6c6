"""Swing a pendulum up, save what was learned, load it and play one episode.   python examples/01_learn.py [steps]"""

import sys
import tempfile

import gymnasium

from sbeed import SBEED

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
agent = SBEED("MlpPolicy", "Pendulum-v1", seed=0, hidden=(64, 64), warmup=1_000)
agent.learn(steps, progress_bar=True)
print(f"{agent.evaluate(episodes=20).mean_return:.0f} on average after {agent.num_timesteps} steps; random is -1200")

with tempfile.TemporaryDirectory() as directory:
    agent.save(f"{directory}/pendulum")
    agent = SBEED.load(f"{directory}/pendulum")

env = gymnasium.make("Pendulum-v1")
obs, _ = env.reset(seed=1)
total, over = 0.0, False
while not over:
    action, _ = agent.predict(obs, deterministic=True)
    obs, reward, terminated, truncated, _ = env.step(action)
    total, over = total + float(reward), terminated or truncated
print(f"one episode: {total:.0f}")
