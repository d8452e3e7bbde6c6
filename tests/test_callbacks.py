"""The callbacks that come with the library: what they leave, and that a resumed run leaves the same."""

import gymnasium
import pytest

from sbeed import SBEED, Score
from sbeed.callbacks import Checkpoint, Evaluate, StopAt, Video
from tests.tiny import TINY

FEW = {"evaluate_every": 10_000, "checkpoint_every": 16, "final_episodes": 1}


def _agent(env="Pendulum-v1"):
    return SBEED("MlpPolicy", env, **TINY)


def test_evaluate_keeps_the_best_model(tmp_path, monkeypatch):
    scores = iter([-3.0, -1.0, -2.0])
    monkeypatch.setattr(SBEED, "evaluate", lambda self, episodes: Score(next(scores), 0.0, [0.0], [200]))
    callback = Evaluate(tmp_path / "best", every=16, episodes=1)
    agent = _agent().learn(48, callback, 1)
    assert [(row["step"], row["mean_return"]) for row in callback.rows()] == [(16, -3), (32, -1), (48, -2)]
    assert SBEED.load(tmp_path / "best" / "model").num_timesteps == 32
    assert [row["eval/mean_return"] for row in agent.logger.rows if "eval/mean_return" in row] == [-3, -1, -2]


def test_a_resumed_run_leaves_the_same(tmp_path):
    def learn(name, stop=None):
        place = tmp_path / name
        callbacks = [Evaluate(place / "best", every=20, episodes=1), Checkpoint(place / "models", every=20)]
        extra = [] if stop is None else [lambda agent: agent.num_timesteps < stop]
        _agent().learn(80, [*callbacks, *extra], out=place / "run", resume=True, **FEW)
        return callbacks[0].rows(), sorted(path.name for path in (place / "models").iterdir())

    whole = learn("whole")
    assert [row["step"] for row in whole[0]] == [24, 40, 64, 80]
    learn("broken", stop=40)
    assert learn("broken") == whole


def test_it_stops_at_a_return():
    env = lambda: gymnasium.make("Pendulum-v1", max_episode_steps=10)
    assert _agent(env).learn(400, StopAt(-1e9, episodes=3)).num_timesteps == 32
    assert _agent(env).learn(80, StopAt(1e9, episodes=3)).num_timesteps == 80


def test_a_film_and_what_cannot_be_filmed(tmp_path):
    pytest.importorskip("imageio")
    pytest.importorskip("pygame")
    agent = _agent().learn(16, Video(tmp_path, every=16, suffix=".gif"))
    assert [path.name for path in tmp_path.iterdir()] == [f"{agent.num_timesteps}_steps.gif"]
    for env, words in ((lambda: gymnasium.make("Pendulum-v1"), "this environment"), ("jax:pendulum", "jax:pendulum")):
        agent = _agent(env)
        with pytest.raises(ValueError, match=f"^{words} cannot be filmed"):
            agent.learn(16, Video(tmp_path))
        assert agent.num_timesteps == 0


def test_get_env():
    env = gymnasium.make("Pendulum-v1")
    assert _agent(env).get_env() is env
    assert _agent("jax:pendulum").get_env().action_space.shape == (1,)
