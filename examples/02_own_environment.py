"""An environment of your own: steer a point to the origin.   python examples/02_own_environment.py [steps]"""

import sys

import gymnasium
import numpy as np

from sbeed import SBEED


class Point(gymnasium.Env):
    """The action is the velocity; an episode ends at the origin, or is cut after 50 steps."""

    observation_space = gymnasium.spaces.Box(-2, 2, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-0.2, 0.2, (2,), np.float32)  # any bounds: the agent's own are [-1, 1]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-1, 1, 2).astype(np.float32), 0
        return self.place, {}

    def step(self, action):
        self.place, self.time = np.clip(self.place + action, -2, 2).astype(np.float32), self.time + 1
        distance = float(np.linalg.norm(self.place))
        # Being there is an end (V = 0 after it); running out of time is not, and must not be reported as one.
        return self.place, -distance, distance < 0.1, self.time >= 50, {}


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
agent = SBEED("MlpPolicy", Point(), eval_env=Point(), hidden=(64, 64), warmup=500)
agent.learn(steps)
score = agent.evaluate(episodes=20)
print(f"{score.mean_return:.2f} on average, {np.mean(score.lengths):.0f} steps to the origin")
