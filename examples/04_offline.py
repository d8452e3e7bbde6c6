"""Learn to swing a pendulum up from random actions alone, and ask the data what came of it.

python examples/04_offline.py [steps of the path]
"""

import sys

from sbeed import SBEED, record_dataset
from sbeed.data.mixing import mixing

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
data = record_dataset("Pendulum-v1", [None], steps, seed=0)  # None acts at random; save_dataset, load_dataset keep it
print(f"{len(data)} steps, {data.returns.mean():.0f} an episode; worth {mixing(data).effective:.0f} independent ones")

# No environment from here on: spaces come from the data.
agent = SBEED(preset="offline", hidden=(64, 64), batch_size=min(256, steps))
agent.fit(data, updates=steps // 2, progress_bar=True)
told = agent.estimate_value(data, updates=max(1, steps // 4))
print(f"the data say: worth {told.fitted:.0f} (discounted); {told.warning or 'well covered'}")

agent.set_env("Pendulum-v1")
print(f"the truth: {agent.evaluate(episodes=20).mean_return:.0f} an episode")
