"""Stable-Baselines3's own callbacks, where it is installed: `make test-sb3` (tests/bridge/fake_sb3.py elsewhere)."""

import warnings

import gymnasium
import numpy as np
import pytest

from sbeed import SBEED
from tests.tiny import TINY

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    callbacks = pytest.importorskip("stable_baselines3.common.callbacks")
    from stable_baselines3.common import logger as their_logger
    from stable_baselines3.common.monitor import Monitor

LIMIT = 12


def _env():
    return gymnasium.make("Pendulum-v1", max_episode_steps=LIMIT)


def _agent(env=None):
    return SBEED("MlpPolicy", env or _env(), **TINY)


def test_checkpoints(tmp_path):
    callback = callbacks.CheckpointCallback(save_freq=10, save_path=str(tmp_path), name_prefix="ours")
    _agent().learn(35, callback)
    assert {path.name for path in tmp_path.iterdir()} == {f"ours_{n}_steps" for n in (10, 20, 30)}
    assert SBEED.load(tmp_path / "ours_30_steps").num_timesteps == 32  # the end of its iteration


def test_evaluation_with_children(tmp_path):
    best = callbacks.StopTrainingOnRewardThreshold(reward_threshold=-1e9)
    callback = callbacks.EvalCallback(
        Monitor(_env()), callback_on_new_best=best, n_eval_episodes=2, eval_freq=20, verbose=0,
        log_path=str(tmp_path), best_model_save_path=str(tmp_path),
    )  # fmt: skip
    agent = _agent().learn(100, callback)  # filterwarnings is error: EvalCallback's own warning would end it
    assert agent.num_timesteps == 24
    assert SBEED.load(tmp_path / "best_model").num_timesteps == 24
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [20]
    (row,) = [row for row in agent.logger.rows if "eval/mean_reward" in row]
    assert row["step"] == 20


def test_the_others():
    stop = callbacks.StopTrainingOnMaxEpisodes(max_episodes=3)
    every = callbacks.EveryNTimesteps(n_steps=10, callback=callbacks.LogEveryNTimesteps(n_steps=10))
    agent = _agent().learn(1000, [callbacks.CallbackList([stop, every])], 0)
    assert agent.num_timesteps == 40
    assert [row["step"] for row in agent.logger.rows] == [10, 20, 30]


def test_the_progress_bar(capsys):
    pytest.importorskip("tqdm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm calls its bar by rich experimental
        callback = callbacks.ProgressBarCallback()
        _agent().learn(24, callback)
    assert callback.pbar.n == 24


def test_their_logger_takes_our_rows(tmp_path):
    agent = _agent()
    agent.set_logger(their_logger.configure(str(tmp_path), ["csv"]))
    agent.learn(48, None, 2)
    agent.logger.close()
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    assert len(lines) == 4


def test_their_environments():
    from stable_baselines3.common.env_util import make_vec_env

    agent = _agent(Monitor(_env())).learn(20)
    assert agent.evaluate(1).lengths == [LIMIT]
    envs = make_vec_env(_env, n_envs=2)
    agent = _agent(envs).learn(60, callbacks.StopTrainingOnMaxEpisodes(max_episodes=2))
    assert agent.num_timesteps == 48
    assert agent.evaluate(1).lengths == [LIMIT]
    agent = _agent(make_vec_env("Pendulum-v1", n_envs=2)).learn(20)
    assert agent.evaluate(1).lengths == [200]
