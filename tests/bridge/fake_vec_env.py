"""Stable-Baselines3's DummyVecEnv as far as it is used here: it resets at once, and has last observations in infos."""

import numpy as np


class FakeVecEnv:
    def __init__(self, makers):
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        self.observation_space, self.action_space = self.envs[0].observation_space, self.envs[0].action_space
        self.seeds = [None] * self.num_envs

    def seed(self, seed=None):
        self.seeds = [seed + i for i in range(self.num_envs)]

    def reset(self):
        obs = [env.reset(seed=seed)[0] for env, seed in zip(self.envs, self.seeds)]
        self.seeds = [None] * self.num_envs
        return np.stack(obs)

    def step_async(self, actions):
        self.actions = actions

    def step_wait(self):
        rows = []
        for env, action in zip(self.envs, self.actions):
            obs, reward, terminated, truncated, info = env.step(action)
            info["TimeLimit.truncated"] = truncated and not terminated
            if terminated or truncated:
                info["terminal_observation"] = obs
                obs, _ = env.reset()
            rows.append((obs, reward, terminated or truncated, info))
        obs, rewards, dones, infos = zip(*rows)
        return np.stack(obs), np.array(rewards), np.array(dones), list(infos)

    def get_attr(self, name):
        return [getattr(env, name) for env in self.envs]
