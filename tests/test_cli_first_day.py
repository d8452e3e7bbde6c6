"""The command line on a user's first day: what it prints off a terminal, what it accepts, and what it answers."""

import signal
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from tools import write_presets

from sbeed import SBEED, cli
from sbeed.cli.preset_values import VALUES
from sbeed.collect import video
from sbeed.envs.gym import make_gym
from sbeed.reporting import plots
from sbeed.storage import run_dir
from tests.tiny import TINY

FLAGS = [
    f"--{name.replace('_', '-')}={value[0] if isinstance(value, tuple) else value}" for name, value in TINY.items()
]
FEW = [*FLAGS, "--episodes", "1", "--final-episodes", "1"]


def _run(capsys, *args):
    with pytest.raises(SystemExit) as stop:
        cli.main([str(arg) for arg in args])
    out, err = capsys.readouterr()
    return stop.value.code, out, err


def _train(capsys, out, *args):
    return _run(capsys, "train", "--env", "Pendulum-v1", *FEW, "--out", out, *args)


# ------------------------------------------------------------------------------------------------- what it prints


def test_off_a_terminal_there_is_a_plan_and_a_line_for_each_evaluation(capsys, tmp_path):
    code, out, err = _train(capsys, tmp_path / "run", "--steps", "1.2e2", "--evaluate-every", "5e1", "--seed", 3)
    assert (code, err) == (0, "")
    plan, first, second, final, path = out.splitlines()
    assert plan.startswith("Pendulum-v1: sbeed, preset default, seed 3, 120 steps, about ")
    assert plan.endswith(" steps/s")
    assert first.startswith("step 56 of 120: return -")
    assert second.startswith("step 104 of 120: return -")
    assert final.startswith("seed 3: return -")
    assert path == str(tmp_path / "run")


def test_quiet_and_verbose(capsys, tmp_path):
    asked = ["--steps", "1_20", "--evaluate-every", 50]
    _, out, _ = _train(capsys, tmp_path / "quiet", *asked, "--quiet")
    assert len(out.splitlines()) == 2
    _, out, _ = _train(capsys, tmp_path / "verbose", *asked, "--verbose")
    assert ", lam_now " in out.splitlines()[1]


def test_a_name_without_a_version_gets_one_warning(capsys, tmp_path):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        args = ["--env", "Pendulum", "--steps", 8, *FEW, "--out", tmp_path / "run"]
        code, _, _ = _run(capsys, "train", *args)
    assert code == 0
    assert len([one for one in said if "Pendulum-v1" in str(one.message)]) == 1
    assert run_dir.read_config(tmp_path / "run" / "config.yaml")["env"] == "Pendulum-v1"


def test_mujoco_warns_once_and_leaves_no_log(tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sbeed.envs.gym._HEARD", set())
    env = make_gym("InvertedPendulum-v5")
    env.reset(seed=0)
    for attempt in range(3):
        env.unwrapped.data.qvel[:] = np.nan
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            env.step(np.zeros(1, np.float32))
        assert len([one for one in said if "MuJoCo" in str(one.message)]) == (1 if attempt == 0 else 0)
    env.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_names_the_command_that_goes_on(capsys, tmp_path):
    agent = SBEED("MlpPolicy", "Pendulum-v1", **TINY)
    stop = lambda agent: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="lies in"):
        agent.learn(80, stop, out=tmp_path / "run", final_episodes=1, evaluate_every=30)
    assert f"; `sbeed resume {tmp_path / 'run'}` goes on\n" in capsys.readouterr().err
    code, out, _ = _run(capsys, "resume", tmp_path / "run")
    assert code == 0
    assert [line[:13] for line in out.splitlines()[:-1]] == ["step 32 of 80", "step 64 of 80", "seed 0: retur"]
    mine = SBEED("MlpPolicy", gymnasium.make("Pendulum-v1"), **TINY)
    with pytest.raises(KeyboardInterrupt):
        mine.learn(80, stop, out=tmp_path / "mine", final_episodes=1)
    assert "resume=True) goes on" in capsys.readouterr().err


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_python_ends_between_two_iterations():
    agent = SBEED("MlpPolicy", "Pendulum-v1", **TINY)
    with pytest.raises(KeyboardInterrupt, match="the agent keeps what it learned"):
        agent.learn(800, lambda agent: agent.num_timesteps < 24 or signal.raise_signal(signal.SIGINT))
    assert agent.learn(8).num_timesteps == 32
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# ------------------------------------------------------------------------------------------------- what it answers


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["train", "--learning-rate", "1e-3"], "--learning-rate: did you mean --Q-step-size or "),
        (["train", "--total-timesteps", "1000"], "--total-timesteps: use --steps"),
        (["train", "--algo", "sac"], "--algo: use --agent"),
        (["train", "--device=cpu"], "--device: JAX chooses the device"),
        (["train", "--n-envs", "4"], "--n-envs: one environment serves each agent"),
        (["fit", "data", "--learning_rate", "1"], "--learning_rate: did you mean --Q-step-size or "),
        (["trian"], "Unrecognized options: trian; "),
        (["trian"], "; did you mean train?"),
    ],
)
def test_the_words_of_others_are_answered_in_one_sentence(capsys, tmp_path, args, words):
    code, out, err = _run(capsys, *args, *(["--out", tmp_path / "run"] if len(args) > 1 else []))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err


class NoPictures(gymnasium.Wrapper):
    def __init__(self):
        super().__init__(gymnasium.make("Pendulum-v1"))

    metadata = {"render_modes": []}  # noqa: RUF012


@pytest.mark.parametrize("takes_no_mode", [True, False])
def test_a_film_of_an_environment_without_pictures_is_one_line(takes_no_mode):
    make = NoPictures if takes_no_mode else lambda render_mode=None: NoPictures()
    gymnasium.register("NoPictures-v0", make)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ValueError, match=r"^NoPictures-v0 cannot be filmed: .*render_mode") as error:
                video.open_for_filming("NoPictures-v0")
    finally:
        del gymnasium.registry["NoPictures-v0"]
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------------------------------------- plots


def test_fitted_runs_have_a_panel_of_their_own():
    rows = [{"env": "Pendulum-v1", "seed": 0, "step": step, "return": -1.0} for step in (10, 20)]
    figure = plots.learning_curves({"trained": rows, "fitted": rows}, fitted=["fitted"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["environment steps", "updates"]


# ------------------------------------------------------------------------------------------------- help


def test_help_has_the_essentials_first_with_the_presets_values(capsys):
    code, out, _ = _run(capsys, "train", "--help")
    assert code == 0
    lines = out.splitlines()
    assert len(lines) < 60
    assert max(len(line) for line in lines) <= 100
    assert lines[2].startswith("  --env NAME")
    assert "(default: 128 128; 64 64 for discrete actions)" in " ".join(out.split())
    assert "--trace 0.5" in out
    _, paper, _ = _run(capsys, "train", "--preset", "paper", "--help")
    assert "--trace 0.97" in paper
    _, everything, _ = _run(capsys, "train", "--help-all")
    assert "weight of later steps of a target" in " ".join(everything.replace("│", " ").split())
    assert "(default: 0.005)" in everything  # of --slow-rate


def test_help_is_free_of_jax():
    probe = "import sys, sbeed.cli\ntry: sbeed.cli.main(['train', '--help'])\nfinally: assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True)


def test_the_presets_values_are_current():
    assert VALUES == write_presets.values(), "run: make generated"


# ------------------------------------------------------------------------------------------------- environments

OWN = """
import gymnasium

class Halved(gymnasium.RewardWrapper):
    def reward(self, reward):
        return reward / 2

gymnasium.register("Own-v0", lambda g=10.0: gymnasium.make("Pendulum-v1", g=g))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A current folder with a module in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_first_day.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("own_first_day", None)
    gymnasium.registry.pop("Own-v0", None)


@pytest.mark.usefixtures("here")
def test_a_module_of_the_current_folder_arguments_and_wrappers(capsys):
    asked = ["--env", "own_first_day:Own-v0", "--env-kwargs", "g=0.0", "--wrapper", "own_first_day:Halved"]
    code, _, err = _run(capsys, "train", *asked, "--steps", 24, *FEW, "--out", "run")
    assert (code, err) == (0, "")
    _, with_both, _ = _run(capsys, "eval", "run", *asked, "--episodes", 1)
    _, without, _ = _run(capsys, "eval", "run", *asked[:4], "--episodes", 1)
    value = lambda out: float(out.split()[1])
    assert value(without) == pytest.approx(2 * value(with_both), abs=0.2)
    assert run_dir.read_rows("run")[-1]["return"] == pytest.approx(value(with_both), abs=0.1)
    code, _, err = _run(capsys, "resume", "run", *asked)
    assert (code, err) == (0, "")
    code, _, err = _run(capsys, "resume", "run")
    assert code == 2
    assert "named with --env-kwargs or --wrapper is named again" in err


@pytest.mark.usefixtures("here")
def test_no_file_makes_the_current_folder_a_place_for_modules(capsys):
    before = list(sys.path)
    Path("own.yaml").write_text("env: own_first_day:Own-v0")
    code, _, err = _run(capsys, "train", "--config", "own.yaml", "--out", "run")
    assert code == 2
    assert "would import a module" in err
    assert sys.path == before
    assert "own_first_day" not in sys.modules


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--env-kwargs", "g"], "expected key=value, got 'g'"),
        (["--env-kwargs", "weight=3"], "Pendulum-v1 cannot be made with them"),
        (["--wrapper", "Halved"], "expected module:Name, got 'Halved'"),
        (["--wrapper", "nowhere_at_all:Halved"], "nowhere_at_all:Halved cannot be imported"),
        (["--wrapper", "math:sin"], "wrapper: "),
        (["--env", "jax:pendulum", "--env-kwargs", "g=1"], "jax:pendulum takes no arguments"),
    ],
)
@pytest.mark.usefixtures("here")
def test_wrong_arguments_and_wrappers_are_one_line(capsys, asked, words):
    code, out, err = _run(capsys, "train", "--env", "Pendulum-v1", *asked, "--out", "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not Path("run").exists()
