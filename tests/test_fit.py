"""Learning from a dataset: without an environment, gone on with bit for bit, and near the data where asked to."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import sbeed
from sbeed import SAC, SBEED, TRPO
from sbeed.agents.q_sbeed.learner import policy as learned
from sbeed.agents.registry import find
from sbeed.collect.record_dataset import record_dataset
from sbeed.data.dataset import from_arrays
from sbeed.storage import run_dir, tensors
from sbeed.storage.datasets import save_dataset
from sbeed.training.trainer import Trainer
from tests.commands import run_command
from tests.tiny import TINY

SIZES = {**TINY, "updates_per_iteration": 4}
FLAGS = "--hidden 4 --batch-size 4 --updates-per-iteration 4 --episodes 1 --final-episodes 2".split()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(scope="module")
def data():
    return record_dataset("Pendulum-v1", [None], 60, names=["random"])


def _leaves(agent):
    return jax.tree.leaves(agent._learned())


# ------------------------------------------------------------------------------------------------- the API


def test_no_environment_is_needed(data, tmp_path):
    agent = SBEED(**SIZES)
    with pytest.raises(ValueError, match="no environment yet"):
        agent.predict(np.zeros(3))
    agent.fit(data, 10)
    assert agent.num_timesteps == 12  # whole rounds of 4
    assert agent.action_space == data.action_space
    assert abs(float(agent.predict(np.zeros(3), deterministic=True)[0][0])) <= 2
    with pytest.raises(ValueError, match="eval_env: a dataset cannot be played in"):
        agent.evaluate(1)
    agent.save(tmp_path / "model")
    again = SBEED.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict(np.ones(3), deterministic=True)[0], agent.predict(np.ones(3), deterministic=True)[0]
    )


def test_where_there_is_an_environment_it_plays_and_goes_on(data):
    agent = SBEED(None, **SIZES).fit(data, 4, eval_env="Pendulum-v1")
    assert len(agent.evaluate(2).returns) == 2
    agent.learn(16)  # from what it was fitted to, in the environment
    assert agent.num_timesteps == 4 + 16


def test_the_data_are_the_replay_in_the_order_of_the_path(data):
    trainer = Trainer(find("sbeed"), data, sbeed.QConfig(**SIZES), seeds=[0])
    (replay,) = trainer._population.members.fetch(trainer._experience.replays)
    assert replay.written == len(data)
    np.testing.assert_array_equal(replay.data.obs, data.data.obs)
    np.testing.assert_allclose(2 * np.tanh(replay.data.action), data.data.action, atol=1e-5)
    assert replay.data.last.nonzero()[0].tolist() == [59]


def test_scales_are_of_the_data_and_stand_still(data):
    fields = {**SIZES, "normalize_observations": True, "normalize_rewards": True}
    agent = SBEED(None, **fields).fit(data, 4)
    before = agent._learned().scales
    agent.fit(data, 4)
    for x, y in zip(jax.tree.leaves(before), jax.tree.leaves(agent._learned().scales)):
        np.testing.assert_array_equal(x, y)


def test_others_fit_too_and_those_that_need_their_own_data_do_not(data):
    SAC(None, **{key: value for key, value in SIZES.items() if key != "pi_updates_per_iteration"}).fit(data, 4)
    with pytest.raises(ValueError, match="on_policy: this agent cannot learn from the data of another policy"):
        TRPO(None, hidden=(4,)).fit(data, 4)


def test_other_spaces_are_refused(data):
    other = record_dataset("CartPole-v1", [None], 30)
    with pytest.raises(ValueError, match="dataset: CartPole-v1 has observation_size 4, the agent was made for 3"):
        SBEED(None, "Pendulum-v1", **SIZES).fit(other, 4)
    with pytest.raises(ValueError, match="eval_env: CartPole-v1 has observation_size 4"):
        SBEED(None, **SIZES).fit(data, 4, eval_env="CartPole-v1")


# ------------------------------------------------------------------------------------------------- going on


def test_gone_on_with_is_never_stopped(data, tmp_path):
    look = {"eval_env": "Pendulum-v1", "evaluate_every": 8, "episodes": 1, "final_episodes": 1, "checkpoint_every": 8}
    whole = SBEED(None, **SIZES).fit(data, 24, out=tmp_path / "whole", **look)
    stop = lambda agent: agent.num_timesteps < 12
    SBEED(None, **SIZES).fit(data, 24, out=tmp_path / "cut", callback=stop, **look)
    again = SBEED(None, **SIZES).fit(data, 24, out=tmp_path / "cut", resume=True, **look)
    for x, y in zip(_leaves(whole), _leaves(again)):
        np.testing.assert_array_equal(x, y)
    rows = [
        [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in run_dir.read_rows(tmp_path / name)]
        for name in ("whole", "cut")
    ]
    assert rows[0] == rows[1]
    assert not list((tmp_path / "whole/replay").iterdir())  # the data lie elsewhere


def test_another_dataset_is_another_run(data, tmp_path):
    stop = lambda agent: False
    SBEED(None, **SIZES).fit(data, 24, out=tmp_path / "run", callback=stop)
    other = record_dataset("Pendulum-v1", [None], 60, seed=1)
    with pytest.raises(ValueError, match=r"its data is '[0-9a-f]{64}', here it is '[0-9a-f]{64}'"):
        SBEED(None, **SIZES).fit(other, 24, out=tmp_path / "run", resume=True)


# ------------------------------------------------------------------------------------------------- the commands


def test_commands(capsys, tmp_path):
    d, run = tmp_path / "d", tmp_path / "run"
    assert run_command(capsys, "record", "--env", "Pendulum-v1", "--steps", 60, "--out", d)[0] == 0
    code, out, _ = run_command(capsys, "data", "show", d, "--json", "--out", tmp_path / "h.png")
    told = json.loads(out)
    assert code == 0
    assert (told["transitions"], told["episodes"], told["single_path"]) == (60, 1, True)
    assert told["mixing"]["rate"] > 0
    assert (tmp_path / "h.png").stat().st_size > 5000
    code, out, _ = run_command(capsys, "inspect", d, "--json")
    assert (code, json.loads(out)["transitions"], json.loads(out)["files"][0]["state"]) == (0, 60, "whole")
    assert "worth" in run_command(capsys, "data", "show", d)[1].replace("\n", " ")

    code, out, err = run_command(
        capsys, "fit", d, "--out", run, *FLAGS, "--clone-steps", 8, "--updates", 8, "--eval-env", "Pendulum-v1"
    )
    assert (code, err) == (0, ""), err
    assert run_dir.read_config(run / "config.yaml")["preset"] == "offline"
    assert "seed 0: return" in out
    assert run_dir.read_rows(run)[-1]["step"] == 8
    assert (run / "curve.png").exists()
    mix = ("record", "--env", "Pendulum-v1", "--policy", "random", run, "--steps", 20, "--out", tmp_path / "mix")
    assert run_command(capsys, *mix)[0] == 0


def test_a_run_without_an_environment_resumes_with_its_data(capsys, tmp_path, data):
    save_dataset(tmp_path / "d", data)
    save_dataset(tmp_path / "other", record_dataset("Pendulum-v1", [None], 60, seed=1))
    run = tmp_path / "run"
    stop = lambda agent: False
    SBEED(None, **SIZES).fit(data, 12, out=run, callback=stop)
    assert "return" not in run_dir.read_rows(run)[-1]
    assert "learns from a dataset: name it" in run_command(capsys, "resume", run)[2]
    code, _, err = run_command(capsys, "resume", run, "--data", tmp_path / "other")
    assert (code, err.count("\n")) == (2, 1)
    assert "data: the run learns from the dataset" in err
    assert run_command(capsys, "resume", run, "--data", tmp_path / "d")[0] == 0
    assert [row["step"] for row in run_dir.read_rows(run) if row["final"]] == [12]
    assert tensors.MANIFEST in {path.name for path in (run / "model").iterdir()}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("data", "show", "nowhere"), "'nowhere' is not a dataset"),
        (("fit", "nowhere", "--out", "run"), "'nowhere' is not a dataset"),
        (("fit", "nowhere", "--out", "run", "--updates", "0"), "updates: must lie in"),
        (("record", "--env", "Pendulum-v1", "--steps", "0", "--out", "d"), "--steps: must lie in"),
        (("record", "--env", "Pendulum-v1", "--policy", "nobody", "--out", "d"), "'nobody' does not exist"),
        (("data", "import", "nowhere"), "--out: name the directory"),
    ],
)
def test_wrong_input_is_one_line(capsys, tmp_path, monkeypatch, words, complaint):
    monkeypatch.chdir(tmp_path)
    code, _, err = run_command(capsys, *words)
    assert (code, err.count("\n")) == (2, 1)
    assert complaint in err
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- near the data


def _biased(n=400):
    """One state; the behaviour takes action 0 nine times in ten, and action 2 never; 0 pays 0, 1 pays 1."""
    rng = np.random.default_rng(0)
    action = (rng.random(n) < 0.1).astype(int)
    obs, last = np.ones((n, 1)), np.ones(n, bool)
    arrays = {"obs": obs, "action": action, "reward": action.astype(float), "next_obs": obs, "terminated": last}
    return from_arrays({**arrays, "last": last}, action_space=spaces.Discrete(3))


NEAR = {
    **{"hidden": (8,), "batch_size": 64, "updates_per_iteration": 50, "k": 1, "clone_steps": 500, "Q_step_size": 0.01},
    **{"adapt_lam": False, "dual_step_size": 0.01, "average_rate": 1.0, "normalize_observations": False},
}


def test_pi_is_the_behaviour_tilted_by_what_it_pays():
    # pi ~ pi_b exp(Q / lam): with lam = 1, odds of 1 against 0 are (.1 / .9) e = .302, where entropy alone would say e.
    data = _biased()
    state = SBEED(preset="offline", lam=1.0, **NEAR).fit(data, 600)._learned()
    clone, pi = (np.exp(policy.distribution(jnp.ones((1, 1))).log_probs[0]) for policy in (state.prior, learned(state)))
    assert clone[1] == pytest.approx(data.data.action.mean(), abs=0.015)
    assert pi[1] / pi[0] == pytest.approx(clone[1] / clone[0] * np.e, rel=0.02)
    assert pi[2] < 0.02  # an action that is not in the data is not tried, whatever its Q
