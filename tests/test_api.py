"""The agent as a user meets it: steps are exact, actions are the environment's own, what is saved comes back."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import sbeed
from sbeed import SBEED, DamagedModel, EnvironmentFault
from sbeed.storage import run_dir
from tests.manifests import forge
from tests.tiny import PAPER, TINY


def _pendulum(**fields):
    return SBEED("MlpPolicy", "Pendulum-v1", **{**TINY, **fields})


@pytest.fixture(scope="module")
def trained():
    return _pendulum(seed=3).learn(37)


class NotANumber(gymnasium.Wrapper):
    """A reward that is NaN from the 20th step on."""

    def step(self, action):
        obs, reward, *rest = super().step(action)
        self.count = getattr(self, "count", 0) + 1
        return obs, float("nan") if self.count >= 20 else reward, *rest


# ------------------------------------------------------------------------------------------------- learning


def test_learning_takes_exactly_the_steps_asked_for_and_goes_on():
    env = gymnasium.make("Pendulum-v1")
    count, step = [], env.unwrapped.step
    env.unwrapped.step = lambda action: count.append(1) or step(action)
    agent = SBEED("MlpPolicy", env, **TINY)
    agent.learn(37)
    assert agent.num_timesteps == len(count) == 37
    agent.learn(5)
    assert agent.num_timesteps == len(count) == 42


SMALL_ROUNDS = {"hidden": (4,), "steps_per_iteration": 8, "replay_capacity": 8, "V_updates": 1, "V_batch_size": 4}
SMALL = {"hidden": (4,), "steps_per_iteration": 8, "batch_size": 4, "warmup": 8, "updates_per_iteration": 1}


@pytest.mark.parametrize(
    ("kind", "policy", "fields"),
    [
        (sbeed.PCL, "RbfPolicy", {**TINY, "features": 4, "k": 3, "segment_length": 8, "batch_size": 8}),
        (sbeed.TRPO, "MlpPolicy", SMALL_ROUNDS),
        (sbeed.DualAC, "RbfPolicy", {**SMALL_ROUNDS, "features": 4}),
        (sbeed.DDPG, "MlpPolicy", SMALL),
        (sbeed.SAC, "MlpPolicy", SMALL),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_others_are_used_alike(tmp_path, kind, policy, fields):
    agent = kind(policy, "Pendulum-v1", **fields).learn(16)
    assert agent.num_timesteps == 16
    agent.save(tmp_path / "model")
    obs = np.zeros(3, np.float32)
    action, _ = kind.load(tmp_path / "model").predict(obs)
    assert np.array_equal(action, agent.predict(obs)[0])


def test_a_callback_hears_of_every_iteration_and_can_end_the_run():
    heard = []
    agent = _pendulum()
    agent.learn(40, callback=lambda agent: heard.append(agent.num_timesteps))
    assert heard == [8, 16, 24, 32, 40]
    agent.learn(40, callback=lambda agent: agent.num_timesteps < 56)
    assert agent.num_timesteps == 56

    class Callback:
        def on_step(self):
            return False

    agent.learn(40, callback=Callback())
    assert agent.num_timesteps == 64


def test_one_seed_one_result(trained):
    again = _pendulum(seed=3).learn(37)
    other = _pendulum(seed=4).learn(37)
    seen = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(
        again.predict(seen, deterministic=True)[0], trained.predict(seen, deterministic=True)[0]
    )
    assert (other.predict(seen, deterministic=True)[0] != trained.predict(seen, deterministic=True)[0]).any()


def test_numbers_may_be_numpys_or_whole_floats(tmp_path):
    agent = _pendulum(seed=np.int64(3), lam=np.float32(0.5)).learn(np.int64(13)).learn(1e1)
    agent.save(tmp_path / "model")
    assert (agent.num_timesteps, SBEED.load(tmp_path / "model").num_timesteps) == (23, 23)


def test_somebody_else_may_act(trained):
    acted = []

    def still(obs):
        acted.append(obs)
        return np.zeros(1)

    agent = _pendulum(behaviour=still)
    assert agent.learn(20).num_timesteps == len(acted) == 20
    agent.set_env("Pendulum-v1")
    agent.learn(4)
    assert len(acted) == 24
    assert _pendulum(behaviour=trained).learn(20).num_timesteps == 20


def test_a_vector_environment():
    agent = SBEED("MlpPolicy", gymnasium.make_vec("Pendulum-v1", 2), **TINY).learn(24)
    assert agent.num_timesteps == 24
    assert agent.predict(np.zeros(3))[0].shape == (1,)
    assert len(agent.evaluate(1).returns) == 1


def test_a_jax_environment(tmp_path):
    agent = SBEED("MlpPolicy", "jax:pendulum", **TINY).learn(20)
    assert agent.num_timesteps == 20
    score = agent.evaluate(2)
    agent.save(tmp_path / "model")
    assert SBEED.load(tmp_path / "model").evaluate(2) == score


# ------------------------------------------------------------------------------------------------- acting


def test_actions_are_the_environments_own(trained):
    space = trained.action_space
    assert (space.low, space.high) == (-2, 2)
    for deterministic in (True, False):
        one, state = trained.predict(np.zeros(3, np.float32), deterministic=deterministic)
        assert one in space
        assert state is None
        many, _ = trained.predict(np.zeros((50, 3)), deterministic=deterministic)
        assert many.shape == (50, 1)
        assert many.dtype == space.dtype
        assert all(action in space for action in many)
        assert (len(np.unique(many)) == 1) is deterministic
    assert np.abs(trained.predict(np.zeros((200, 3)))[0]).max() > 1  # of 2: not the agent's own [-1, 1]


def test_evaluation_plays_the_deterministic_policy(trained):
    score = trained.evaluate(2)
    assert score == trained.evaluate(2)
    assert score.lengths == [200, 200]
    assert score.mean_return == pytest.approx(sum(score.returns) / 2)


@pytest.mark.parametrize(
    ("policy", "fields"), [("MlpPolicy", {}), ("TabularPolicy", {"preset": "paper", **PAPER})], ids=["mlp", "table"]
)
def test_discrete_observations_and_actions(policy, fields):
    agent = SBEED(policy, "FrozenLake-v1", **{**TINY, **fields}).learn(20)
    one, _ = agent.predict(5)
    assert one in agent.action_space
    assert one in range(4)  # it can be looked up in a dict, as FrozenLake does
    many, _ = agent.predict(np.arange(16), deterministic=True)
    assert many.shape == (16,)
    env = gymnasium.make("FrozenLake-v1")
    obs, _ = env.reset(seed=0)
    env.step(agent.predict(obs)[0])
    assert len(agent.evaluate(2).lengths) == 2
    with pytest.raises(ValueError, match="observation: expected integers"):
        agent.predict(16)


def test_sb3_evaluates_it(trained):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    env = monitor.Monitor(gymnasium.make("Pendulum-v1"))
    mean, std = evaluation.evaluate_policy(trained, env, n_eval_episodes=2)
    assert -2000 < mean < 0
    assert std > 0


# ------------------------------------------------------------------------------------------------- files


def test_what_is_saved_comes_back(trained, tmp_path):
    trained.save(tmp_path / "model")
    loaded = SBEED.load(tmp_path / "model")
    seen = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(
        loaded.predict(seen, deterministic=True)[0], trained.predict(seen, deterministic=True)[0]
    )
    assert loaded.config == trained.config
    assert loaded.spec == trained.spec
    assert loaded.evaluate(1) == trained.evaluate(1)
    assert (loaded.num_timesteps, loaded.seed) == (37, 3)
    loaded.learn(20)
    assert loaded.num_timesteps == 57


def test_an_environment_without_a_name_is_given_again(tmp_path):
    env = gymnasium.make("Pendulum-v1")
    SBEED("MlpPolicy", env, **TINY).save(tmp_path / "model")
    loaded = SBEED.load(tmp_path / "model")
    assert loaded.predict(np.zeros(3), deterministic=True)[0] in env.action_space
    with pytest.raises(ValueError, match="set_env"):
        loaded.evaluate(1)
    with pytest.raises(ValueError, match="CartPole-v1 has observation_size 4"):
        loaded.set_env("CartPole-v1")
    loaded.set_env(env)
    assert len(loaded.evaluate(1).returns) == 1
    assert SBEED.load(tmp_path / "model", env=env).learn(8).num_timesteps == 8


def test_an_environment_set_before_anything_was_learned_changes_nothing(trained):
    agent = _pendulum(seed=3)
    agent.set_env("Pendulum-v1")
    agent.learn(37)
    seen = np.ones(3)
    assert agent.predict(seen, deterministic=True)[0] == trained.predict(seen, deterministic=True)[0]


def test_to_predict_takes_no_environment_and_no_file_imports_a_module(trained, tmp_path):
    trained.save(tmp_path / "model")
    path = tmp_path / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, words in (("Gone-v0", "not a Gymnasium environment id"), ("antigravity:Gone-v0", "import a module")):
        forge(path, env={**manifest["env"], "name": name})
        loaded = SBEED.load(tmp_path / "model")
        assert loaded.predict(np.zeros(3))[0] in loaded.action_space
        with pytest.raises(ValueError, match=words):
            loaded.evaluate(1)
        assert "antigravity" not in sys.modules
        loaded.set_env("Pendulum-v1")
        assert loaded.evaluate(1) == trained.evaluate(1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"agent": "os.system"}, "agent: must be one of sbeed"),
        ({"config": {"lam": -1}}, "lam: must lie in"),
        ({"config": {"lamb": 1}}, "lamb: no such field"),
        ({"env": {}}, "it has no 'spec'"),
        ({"seed": None}, "seed: expected a whole number"),
        ({"steps": float("inf")}, "steps: expected a whole number"),
        ({"config": []}, "manifest"),
        ({"env": []}, "manifest"),
        (("env", "name", 3), "contradicts itself"),
        (("env", "noise", None), "manifest"),
        (("env", "spec", {"observation_size": 2}), "manifest"),
        (("env", "observation_space", {"kind": "discrete", "n": 10**9, "start": 0}), "contradicts itself"),
        (("env", "action_space", {"kind": "box", "low": [], "high": [], "shape": [-1], "dtype": "O"}), "manifest"),
    ],
)
def test_a_manifest_that_says_something_else(trained, tmp_path, change, words):
    trained.save(tmp_path / "model")
    path = tmp_path / "model" / "manifest.json"
    manifest = json.loads(path.read_text())
    if isinstance(change, tuple):
        outer, inner, value = change
        change = {outer: {**manifest[outer], inner: value}}
    forge(path, **change)
    with pytest.raises(DamagedModel, match="manifest") as error:
        SBEED.load(tmp_path / "model")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_run_leaves_its_directory(tmp_path):
    agent = _pendulum(seed=3).learn(24, out=tmp_path / "run", evaluate_every=16, episodes=1, final_episodes=2)
    found = {path.name for path in (tmp_path / "run").iterdir()}
    assert found == {
        "config.yaml", "metrics.jsonl", "tensorboard", "curve.png", "model", "checkpoints", "replay", "lock",
    }  # fmt: skip
    rows = run_dir.read_rows(tmp_path / "run")
    assert [(row["step"], row["final"]) for row in rows] == [(16, False), (24, True)]
    score = SBEED.load(tmp_path / "run" / "model").evaluate(2)
    assert score == agent.evaluate(2)
    assert score.mean_return == pytest.approx(rows[-1]["return"])
    with pytest.raises(FileExistsError):
        agent.learn(8, out=tmp_path / "run")
    assert agent.num_timesteps == 24
    SBEED.load(tmp_path / "run" / "model").learn(8, out=tmp_path / "more", final_episodes=1)
    assert SBEED.load(tmp_path / "more" / "model").num_timesteps == 32


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_run_keeps_what_it_learned(tmp_path):
    def interrupt(agent):
        if agent.num_timesteps == 24:
            signal.raise_signal(signal.SIGINT)

    agent = _pendulum(seed=3)
    with pytest.raises(KeyboardInterrupt, match="lies in"):
        agent.learn(800, callback=interrupt, out=tmp_path / "run", final_episodes=2)
    (row,) = run_dir.read_rows(tmp_path / "run")
    assert (row["step"], row["final"]) == (24, True)
    assert (tmp_path / "run" / "curve.png").is_file()
    assert SBEED.load(tmp_path / "run" / "model").evaluate(2).mean_return == pytest.approx(row["return"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def twice(agent):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        agent.learn(800, callback=twice, out=tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_without_matplotlib_a_run_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("sbeed.training.session.find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"curve\.png: .*sbeed\[plot\]"):
        _pendulum().learn(8, out=tmp_path / "run", final_episodes=1)
    assert (tmp_path / "run" / "model").is_dir()


# ------------------------------------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("policy", "env", "fields", "words"),
    [
        ("LstmPolicy", "Pendulum-v1", {}, "policy: must be one of MlpPolicy"),
        ("RbfPolicy", "Pendulum-v1", {}, "policy: the form of preset default has no such field; that of paper"),
        ("MlpPolicy", "Pendulum-v1", {"V_step_size": 1.0}, "V_step_size: the form of preset default has no such field"),
        ("MlpPolicy", "Pendulum-v0.5", {}, "not a Gymnasium environment id"),
        ("MlpPolicy", "jax:nothing", {}, "not a JAX environment"),
        ("MlpPolicy", "Pendulum-v1", {"preset": "best"}, "preset: must be one of"),
        ("MlpPolicy", "Pendulum-v1", {"lamda": 0.1}, "lamda: no such field; did you mean lam"),
        ("MlpPolicy", "Pendulum-v1", {"lam": -1}, "lam: must lie in"),
        ("MlpPolicy", "Pendulum-v1", {"eta": 1.5}, "eta: must lie in"),
        ("MlpPolicy", "Pendulum-v1", {"k": 101}, "replay"),
        ("MlpPolicy", "Pendulum-v1", {"behaviour": "other"}, "behaviour: must be"),
        ("MlpPolicy", "Pendulum-v1", {"seed": -1}, "seed: must lie in [0, 2^32), got -1"),
        ("MlpPolicy", "Pendulum-v1", {"seed": 2**32}, "seed: must lie in"),
        ("MlpPolicy", gymnasium.Env, {}, "env: must be a name"),
        ("MlpPolicy", lambda: 0, {}, "env: must be a name"),
    ],
)
def test_wrong_input_is_one_line(policy, env, fields, words):
    with pytest.raises(ValueError, match=words.split(" ")[0]) as error:
        SBEED(policy, env, **{**TINY, **fields})
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "asked",
    [
        {"total_timesteps": 0},
        {"total_timesteps": 1.5},
        {"evaluate_every": 0},
        {"episodes": 0},
        {"final_episodes": "2"},
    ],
)
def test_wrong_numbers_leave_nothing(trained, tmp_path, asked):
    with pytest.raises(ValueError, match=f"^{next(iter(asked))}: "):
        trained.learn(**{"total_timesteps": 8, "out": tmp_path / "run", **asked})
    assert list(tmp_path.iterdir()) == []


def test_an_environment_that_cannot_be_evaluated_in_is_refused_before_a_step(tmp_path):
    class Unregistered(gymnasium.Wrapper):
        spec = None

    agent = SBEED("MlpPolicy", Unregistered(gymnasium.make("Pendulum-v1")), **TINY)
    with pytest.raises(ValueError, match="eval_env: "):
        agent.learn(40, out=tmp_path / "run")
    assert agent.num_timesteps == 0
    assert list(tmp_path.iterdir()) == []


def test_a_space_that_no_agent_can_act_in():
    env = gymnasium.make("Pendulum-v1")
    env.unwrapped.observation_space = env.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    with pytest.raises(ValueError, match=r"observation space Box.* is not supported"):
        SBEED("MlpPolicy", env)


def test_a_reward_that_is_no_number_leaves_nothing_half_written(tmp_path):
    agent = SBEED("MlpPolicy", NotANumber(gymnasium.make("Pendulum-v1")), eval_env="Pendulum-v1", **TINY)
    with pytest.raises(EnvironmentFault, match="reward is not finite at step 20"):
        agent.learn(40, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------- the package


def test_public_names_come_without_jax_and_are_all_there():
    probe = "import sys, sbeed; assert 'jax' not in sys.modules and 'SBEED' in dir(sbeed)"
    subprocess.run([sys.executable, "-c", probe], check=True)
    for name in sbeed.__all__:
        assert getattr(sbeed, name) is not None
    with pytest.raises(AttributeError, match="SBED"):
        sbeed.SBED  # noqa: B018


def test_a_script_needs_no_main_guard(tmp_path):
    script = tmp_path / "script.py"
    sizes = ", ".join(f"{name}={value!r}" for name, value in TINY.items())
    script.write_text(f"from sbeed import SBEED\nSBEED('MlpPolicy', 'Pendulum-v1', {sizes}).learn(8).save('model')\n")
    subprocess.run([sys.executable, script.name], cwd=tmp_path, check=True)
    assert (Path(tmp_path) / "model" / "manifest.json").is_file()
