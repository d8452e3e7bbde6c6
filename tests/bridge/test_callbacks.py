"""Callbacks: any falsy answer ends a run, and those of Stable-Baselines3 hear of every environment step."""

import gymnasium
import numpy as np
import pytest

from sbeed import SAC, SBEED, TRPO, Logger, from_arrays, train
from sbeed.training.run import RunSpec
from tests.bridge import fake_sb3
from tests.tiny import TINY

LIMIT = 12  # steps of an episode


def _env():
    return gymnasium.make("Pendulum-v1", max_episode_steps=LIMIT)


def _agent(env="Pendulum-v1", **fields):
    return SBEED("MlpPolicy", env, **{**TINY, **fields})


@pytest.mark.parametrize("answer", [False, np.False_, 0, np.float32(0), ""])
def test_any_falsy_answer_but_none_ends_the_call(answer):
    assert _agent().learn(40, lambda agent: answer).num_timesteps == 8
    seen = []
    train(RunSpec("Pendulum-v1", steps=40, fields=TINY, evaluate_every=10**6, final_episodes=1),
          on_progress=lambda trainer: seen.append(trainer.step) or answer)  # fmt: skip
    assert seen == [8]


@pytest.mark.parametrize("answer", [None, True, np.True_, 1, "on"])
def test_none_and_anything_true_go_on(answer):
    assert _agent().learn(24, lambda agent: answer).num_timesteps == 24


def test_a_checkpoint_is_counted_in_environment_steps(tmp_path):
    agent = _agent().learn(50, fake_sb3.CheckpointCallback(10, tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {f"rl_model_{steps}_steps" for steps in (10, 20, 30, 40, 50)}
    assert SBEED.load(tmp_path / "rl_model_50_steps").num_timesteps == agent.num_timesteps == 50


def test_hooks_come_in_the_order_of_stable_baselines3():
    callback = fake_sb3.BaseCallback()
    _agent().learn(12, callback)
    steps = lambda count: ["rollout start", *["step"] * count, "rollout end"]
    assert callback.heard == ["training start", *steps(8), *steps(4), "training end"]
    assert (callback.n_calls, callback.num_timesteps) == (12, 12)
    assert callback.locals["total_timesteps"] == 12


class Recording(fake_sb3.BaseCallback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def _on_step(self):
        names = ("obs", "actions", "rewards", "new_obs", "dones", "infos")
        self.seen.append({name: self.locals[name] for name in names} | {"step": self.num_timesteps})
        return True


@pytest.mark.parametrize("kind", [SBEED, SAC, TRPO], ids=lambda kind: kind.__name__)
def test_locals_are_those_of_each_step(kind):
    env, played = _env(), []
    step = env.step
    env.step = lambda action: played.append((action, *step(action))) or played[-1][1:]
    fields = {"hidden": (4,), "steps_per_iteration": 8}
    if kind is TRPO:  # it forgets its data after every round
        fields |= {"replay_capacity": 8, "V_updates": 1, "V_batch_size": 4}
    else:
        fields |= {"batch_size": 4, "warmup": 8, "updates_per_iteration": 1}
    callback = Recording()
    kind("MlpPolicy", env, **fields).learn(30, callback)
    assert [seen["step"] for seen in callback.seen] == list(range(1, 31))
    returns, total = [], 0.0
    for seen, (action, obs, reward, terminated, truncated, _) in zip(callback.seen, played, strict=True):
        np.testing.assert_allclose(seen["actions"], [action], rtol=1e-5)
        np.testing.assert_array_equal(seen["new_obs"], [obs])
        np.testing.assert_allclose(seen["rewards"], [reward], rtol=1e-6)
        assert seen["dones"].tolist() == [terminated or truncated]
        total += reward
        (info,) = seen["infos"]
        if truncated:
            assert info["episode"]["r"] == pytest.approx(total, rel=1e-5)
            assert info["episode"]["l"] == LIMIT
            assert info["TimeLimit.truncated"]
            np.testing.assert_array_equal(info["terminal_observation"], obs)
            returns.append(total)
            total = 0.0
        else:
            assert info == {}
    assert len(returns) == 2


def test_an_episode_whose_start_no_callback_saw_has_no_return():
    agent, callback = _agent(_env()), Recording()
    agent.learn(8)
    agent.learn(20, callback)
    ends = [info for seen in callback.seen for info in seen["infos"] if info]
    assert ["episode" in info for info in ends] == [False, True]


@pytest.mark.parametrize("env", ["vector", "jax:pendulum"])
def test_episodes_end_in_vectors_and_on_the_device_too(env):
    if env == "vector":
        env = gymnasium.make_vec("Pendulum-v1", 2, vectorization_mode="sync", max_episode_steps=LIMIT)
    agent, callback = _agent(env), Recording()
    agent.learn(208, callback)
    vector = not isinstance(env, str)
    assert callback.n_calls == 208 / (2 if vector else 1)
    assert callback.num_timesteps == 208
    ended = sum(int(np.sum(seen["dones"])) for seen in callback.seen)
    assert ended == agent.metrics["episodes"]
    assert ended == (208 // LIMIT // 2 * 2 if vector else 1)
    assert np.shape(callback.seen[0]["actions"]) == (2 if vector else 1, 1)


def test_it_stops_after_so_many_episodes():
    agent = _agent(_env())
    agent.learn(400, fake_sb3.StopTrainingOnMaxEpisodes(2))
    assert agent.num_timesteps == 24


def test_a_list_of_callbacks_of_all_kinds(tmp_path):
    heard, callback = [], fake_sb3.BaseCallback()
    agent = _agent().learn(
        400, [lambda agent: heard.append(agent.num_timesteps), [callback, fake_sb3.CheckpointCallback(20, tmp_path)],
              lambda locals_, globals_: locals_["self"].num_timesteps < 20]
    )  # fmt: skip
    assert agent.num_timesteps == 24
    assert heard == [8, 16, 24]
    assert callback.n_calls == 20
    assert len(list(tmp_path.iterdir())) == 1


def test_a_callback_logs_and_the_logger_has_rows(tmp_path):
    class Logging(fake_sb3.BaseCallback):
        def _on_step(self):
            self.logger.record("mine", np.float32(self.num_timesteps))
            self.logger.record_mean("half", self.num_timesteps % 2)
            return True

    agent = _agent()
    agent.set_logger(Logger(tmp_path / "log.jsonl"))
    agent.learn(48, Logging(), 2)
    assert [row["step"] for row in agent.logger.rows] == [16, 32, 48]
    assert [row["mine"] for row in agent.logger.rows] == [16, 32, 48]
    assert [row["half"] for row in agent.logger.rows] == [0.5] * 3
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 3
    with pytest.raises(ValueError, match="logger: must have"):
        agent.set_logger(print)


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (3, "must be a function of the agent"),
        (fake_sb3.BaseCallback, "must be a function of the agent"),
        (lambda: False, r"must take the agent, or \(locals, globals\)"),
        (fake_sb3.CheckpointCallback(10, "x", save_replay_buffer=True), "cannot save_replay_buffer"),
        (fake_sb3.StopTrainingOnRewardThreshold(), "works inside an EvalCallback"),
        (fake_sb3.EvalCallback(gymnasium.make("CartPole-v1")), "the observation_space of EvalCallback's eval_env"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_step(tmp_path, callback, words):
    agent = _agent()
    with pytest.raises(ValueError, match=f"^callback: .*{words}"):
        agent.learn(40, [callback], out=tmp_path / "run")
    assert agent.num_timesteps == 0
    assert not (tmp_path / "run").exists()


def test_a_dataset_has_updates_and_no_episodes():
    n = 40
    arrays = {"observations": np.zeros((n, 3), np.float32), "actions": np.zeros((n, 1), np.float32)}
    ends = {"terminals": np.arange(n) % 10 == 9, "timeouts": np.zeros(n, bool)}
    data = from_arrays({**arrays, **ends, "rewards": np.zeros(n)}, action_space=_env().action_space)
    agent, callback = (
        SBEED(**{**TINY, "updates_per_iteration": 4}, preset="offline", clone_steps=2),
        fake_sb3.BaseCallback(),
    )
    agent.fit(data, 8, callback=callback)
    assert callback.num_timesteps == 8
    with pytest.raises(ValueError, match=r"^callback: StopTrainingOnMaxEpisodes cannot work here: .*get_env"):
        agent.fit(data, 8, callback=fake_sb3.StopTrainingOnMaxEpisodes(1))
