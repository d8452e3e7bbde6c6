"""What a user of Stable-Baselines3 does on the first day, beside callbacks."""

import re
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tools import write_migration

from sbeed import SAC, SBEED, EnvironmentFault
from sbeed.agents.peers import PEERS
from tests.bridge.fake_vec_env import FakeVecEnv
from tests.tiny import TINY

LIMIT = 12


class Unregistered(gymnasium.Env):
    """Two steps of nothing, in a space of its own."""

    closed = 0

    def __init__(self, shape=(2,), high=1.0):
        self.observation_space, self.shape = spaces.Box(-1, 1, (2,)), shape
        self.action_space = spaces.Box(-high, high, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(self.shape if self.shape != (3,) else (2,), np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(self.shape, np.float32), 1.0, False, self.count == 2, {}

    def close(self):
        Unregistered.closed += 1


def _agent(env="Pendulum-v1", **fields):
    return SBEED("MlpPolicy", env, **{**TINY, **fields})


# ------------------------------------------------------------------------------------------------- environments


def test_a_function_that_makes_the_environment():
    Unregistered.closed = 0
    agent = _agent(partial(Unregistered, (2,))).learn(10)
    assert agent.evaluate(3).returns == [2, 2, 2]  # in another one, from the same function
    agent.close()
    assert Unregistered.closed == 3  # described, trained in, evaluated in


def test_a_vec_env_of_stable_baselines3():
    envs = FakeVecEnv([lambda: gymnasium.make("Pendulum-v1", max_episode_steps=LIMIT) for _ in range(2)])
    agent = _agent(envs).learn(80)
    assert (agent.num_timesteps, agent.metrics["episodes"]) == (80, 6)
    assert agent.evaluate(1).lengths == [LIMIT]
    rows = agent._trainer._experience.newest(80)
    reached, first = np.asarray(rows.next_obs[0]), np.asarray(rows.obs[0])
    ends = np.asarray(rows.last[0])
    assert not np.asarray(rows.terminated[0]).any()
    same_path = np.flatnonzero(~ends[:-1])
    np.testing.assert_array_equal(reached[same_path], first[same_path + 1])
    with pytest.raises(ValueError, match="keeps statistics"):
        _agent(type("VecNormalize", (FakeVecEnv,), {"training": True})([lambda: gymnasium.make("Pendulum-v1")]))


def test_a_vector_in_processes():
    made = {"vectorization_mode": "async", "vector_kwargs": {"context": "spawn"}}
    envs = gymnasium.make_vec("Pendulum-v1", 2, **made)  # without the warning of a fork, which would be an error
    assert _agent(envs).learn(10).num_timesteps == 10
    envs.close()


def test_the_advice_on_unbounded_actions_works():
    with pytest.raises(ValueError, match="infinite bounds") as error:
        _agent(Unregistered(high=np.inf))
    (advice,) = re.findall(r"gymnasium\.wrappers\.TransformAction\(.*\)", str(error.value))
    make = lambda: eval(advice, {"gymnasium": gymnasium, "env": Unregistered(high=np.inf)})
    agent = _agent(make).learn(10)
    assert agent.predict(np.zeros(2))[0] in agent.action_space
    assert agent.evaluate(1).returns == [2]


@pytest.mark.parametrize("shape", [(3,), (1, 2)])
def test_an_observation_of_another_shape_is_named(shape):
    words = re.escape(f"Unregistered: observation has the shape {shape}, its space has (2,)")
    with pytest.raises(EnvironmentFault, match=f"^{words} at step [01] of episode 1$"):
        _agent(Unregistered(shape)).learn(10)


# ------------------------------------------------------------------------------------------------- the agent


def test_seed_none_draws_one():
    seeds = {_agent(seed=None).seed for _ in range(3)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_repr_says_what_it_is():
    assert repr(SBEED()) == "SBEED(no environment yet)"
    agent = _agent(seed=3).learn(8)
    assert repr(agent) == "SBEED('Pendulum-v1', preset='default', seed=3, num_timesteps=8)"


def test_metrics_without_a_directory():
    agent = _agent()
    assert agent.metrics == {"iteration": 0, "episodes": 0}
    agent.learn(400, None, 5)
    assert [row["step"] for row in agent.logger.rows] == list(range(40, 401, 40))
    assert agent.metrics["train_return"] < 0
    assert {"train_return", "iteration"} <= set(agent.logger.rows[-1])
    assert len(agent.metrics) > 4  # those of the updates too
    agent.learn(80, log_interval=0)
    assert len(agent.logger.rows) == 10


def test_runs_load_like_models(tmp_path):
    agent = _agent().learn(24, out=tmp_path / "run", final_episodes=1)
    seen = np.ones(3)
    loaded = SBEED.load(tmp_path / "run")
    assert loaded.predict(seen, deterministic=True)[0] == agent.predict(seen, deterministic=True)[0]
    with pytest.raises(FileNotFoundError, match="nope' does not exist"):
        SBEED.load(tmp_path / "nope")
    agent.save(tmp_path / "run" / "seed_1")
    with pytest.raises(ValueError, match="holds 2 models: name one, such as"):
        SBEED.load(tmp_path / "run")
    for model in ("model", "seed_1"):
        (tmp_path / "run" / model / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no saved model yet: `sbeed resume .*run` finishes the run"):
        SBEED.load(tmp_path / "run")


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", PEERS)
def test_every_name_of_the_peers_is_answered_in_one_sentence(name):
    with pytest.raises((ValueError, TypeError)) as error:
        SBEED("MlpPolicy", "Pendulum-v1", **{name: 1})
    text = str(error.value)
    assert text.startswith(f"{name}: no such field; ")
    assert "the names are" not in text
    assert len(text) < 200


def test_a_name_that_only_another_algorithm_has():
    with pytest.raises(ValueError, match="target_kl: no such field; this algorithm has no setting like it"):
        SAC("MlpPolicy", "Pendulum-v1", target_kl=0.1)


def test_the_migration_page_is_current():
    assert write_migration.FILE.read_text() == write_migration.content(), "run: python -m tools.write_migration"
