"""The part of Stable-Baselines3's callbacks that the bridge calls, by the same names, without torch."""

import numpy as np


class BaseCallback:
    def __init__(self):
        self.n_calls = self.num_timesteps = 0
        self.locals, self.parent, self.heard = {}, None, []

    @property
    def training_env(self):
        env = self.model.get_env()
        assert env is not None, "`model.get_env()` returned None"
        return env

    @property
    def logger(self):
        return self.model.logger

    def init_callback(self, model):
        self.model = model
        self._init_callback()

    def _init_callback(self):
        pass

    def on_training_start(self, locals_, globals_):
        self.locals, self.globals = locals_, globals_
        self.heard.append("training start")

    def on_rollout_start(self):
        self.heard.append("rollout start")

    def on_step(self):
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        self.heard.append("step")
        return self._on_step()

    def _on_step(self):
        return True

    def on_rollout_end(self):
        self.heard.append("rollout end")

    def on_training_end(self):
        self.heard.append("training end")

    def update_locals(self, locals_):
        self.locals.update(locals_)


class CheckpointCallback(BaseCallback):
    def __init__(self, save_freq, save_path, save_replay_buffer=False):
        super().__init__()
        self.save_freq, self.save_path, self.save_replay_buffer = save_freq, save_path, save_replay_buffer

    def _on_step(self):
        if self.n_calls % self.save_freq == 0:
            self.model.save(f"{self.save_path}/rl_model_{self.num_timesteps}_steps.zip")
        return True


class StopTrainingOnMaxEpisodes(BaseCallback):
    def __init__(self, max_episodes):
        super().__init__()
        self.max_episodes, self.n_episodes = max_episodes, 0

    def _init_callback(self):
        assert self.training_env is not None

    def _on_step(self):
        self.n_episodes += int(np.sum(self.locals["dones"]))
        return self.n_episodes < self.max_episodes


class EvalCallback(BaseCallback):
    def __init__(self, eval_env, callback_on_new_best=None):
        super().__init__()
        self.eval_env, self.callback_on_new_best = eval_env, callback_on_new_best


class StopTrainingOnRewardThreshold(BaseCallback):
    """By its name: it needs a parent."""
