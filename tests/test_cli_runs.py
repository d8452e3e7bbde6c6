"""The commands that train and look at runs: what they leave, what they print, and what they refuse."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import gymnasium
import pytest
import yaml

from sbeed import cli
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.cli.flags import spell_out, switches
from sbeed.cli.plan import chosen, read_file
from sbeed.storage import run_dir
from tests.commands import run_command
from tests.manifests import forge

# The same sizes as in test_api: compiled once if both run in one process.
TINY = (
    "--hidden 4 --batch-size 4 --replay-capacity 100 --warmup 16 --steps-per-iteration 8 --updates-per-iteration 1"
    " --episodes 1 --evaluate-every 16 --final-episodes 2"
).split()


def _train(capsys, out, *args, env="Pendulum-v1"):
    return run_command(capsys, "train", "--env", env, "--steps", 24, *TINY, "--out", out, *args)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two seeds of Pendulum."""
    path = tmp_path_factory.mktemp("runs") / "pendulum"
    with pytest.raises(SystemExit) as stop:
        cli.main(
            ["train", "--env", "Pendulum-v1", "--steps", "24", "--seeds", "2", "--seed", "3", *TINY, "--out", str(path)]
        )
    assert stop.value.code == 0
    return path


# ------------------------------------------------------------------------------------------------- train


def test_a_run_leaves_settings_rows_models_and_a_curve(run):
    found = {path.name for path in run.iterdir()}
    assert found == {
        "config.yaml", "metrics.jsonl", "tensorboard", "curve.png", "seed_3", "seed_4", "checkpoints", "replay", "lock",
    }  # fmt: skip
    rows = run_dir.read_rows(run)
    assert [(row["step"], row["seed"], row["final"]) for row in rows] == [
        (16, 3, False), (16, 4, False), (24, 3, True), (24, 4, True),
    ]  # fmt: skip
    for name in ("env", "return", "return_std", "length", "train_return", "seconds"):
        assert name in rows[-1]
    settings = yaml.safe_load((run / "config.yaml").read_text())
    assert settings["hidden"] == [4]
    assert set(QConfig.__dataclass_fields__) <= set(settings)
    assert (run / "curve.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("env: antigravity:Gone-v0", "would import a module, which no file may do: name it yourself (--env)"),
        ("env: ../../secret:Gone-v0", "would import a module"),
        ("env: Pendulum-v1\nagent: [sbeed]", "agent"),
    ],
)
def test_a_file_of_settings_imports_nothing(capsys, tmp_path, setting, words):
    (tmp_path / "settings.yaml").write_text(setting)
    code, out, err = run_command(capsys, "train", "--config", tmp_path / "settings.yaml", "--out", tmp_path / "run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert "antigravity" not in sys.modules
    assert not (tmp_path / "run").exists()


def test_a_run_can_be_asked_for_again_by_its_config_file(run, tmp_path, capsys):
    code, _, err = run_command(
        capsys, "train", "--config", run / "config.yaml", "--seeds", 1, "--out", tmp_path / "again"
    )
    assert (code, err) == (0, "")
    again, first = run_dir.read_rows(tmp_path / "again")[-1], run_dir.read_rows(run)[-2]
    assert (again["seed"], again["return"]) == (3, first["return"])
    assert (tmp_path / "again" / "model").is_dir()
    settings = [yaml.safe_load((path / "config.yaml").read_text()) for path in (run, tmp_path / "again")]
    assert settings[0] | {"seeds": 1} == settings[1]


def test_flags_win_over_the_file_and_the_file_over_the_preset(tmp_path, capsys):
    (tmp_path / "own.json").write_text(json.dumps({"env": "Pendulum-v1", "lam": 0.5, "eta": 0.25, "adapt_lam": False}))
    out = tmp_path / "run"
    args = ["--config", tmp_path / "own.json", "--lam", 0.125, "--slow-copy", "--steps", 8, *TINY, "--out", out]
    code, _, _ = run_command(capsys, "train", *args)
    settings = yaml.safe_load((out / "config.yaml").read_text())
    assert code == 0
    assert [settings[name] for name in ("lam", "eta", "adapt_lam", "slow_copy")] == [0.125, 0.25, False, True]


def test_a_flag_or_a_file_chooses_the_algorithm_and_the_preset(tmp_path):
    (tmp_path / "own.yaml").write_text("agent: pcl\npreset: paper")
    own = ["--config", str(tmp_path / "own.yaml")]
    asked = ([], own, ["--agent=pcl"], [*own, "--agent", "sbeed"], [*own, "--preset=default"], ["--preset", "offline"])
    assert [chosen(args, read_file(args)) for args in asked] == [
        ("sbeed", ""), ("pcl", "paper"), ("pcl", ""), ("sbeed", "paper"), ("pcl", "default"), ("sbeed", "offline"),
    ]  # fmt: skip


def test_settings_that_come_through_a_pipe_are_read_once(tmp_path, capsys):
    ours, theirs = os.pipe()  # `--config <(echo ...)`
    os.write(theirs, b"lam: 0.1\nadapt_lam: false")
    os.close(theirs)
    code, _, err = _train(capsys, tmp_path / "run", "--config", f"/dev/fd/{ours}")
    os.close(ours)
    assert (code, err) == (0, "")
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["lam"] == 0.1


def test_an_environment_is_described_once(tmp_path, capsys, monkeypatch):
    made, make = [], gymnasium.make
    monkeypatch.setattr(gymnasium, "make", lambda name, **asked: made.append(name) or make(name, **asked))
    code, _, _ = _train(capsys, tmp_path / "run")
    assert code == 0
    assert len(made) == 3  # to describe it, to learn in and to evaluate in


def test_a_file_of_settings_of_the_other_form_is_read_with_its_preset(tmp_path, capsys):
    sizes = {"batch_size": 16, "features": 4, "k": 2, "segment_length": 8, "pi_batch_size": 8, "replay_capacity": 64}
    rounds = {"warmup": 16, "steps_per_iteration": 8, "updates_per_iteration": 1, "hidden": [4]}
    settings = {"env": "Pendulum-v1", "preset": "paper", "kappa": 0.5, **sizes, **rounds}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(settings))
    looks = ["--episodes", 1, "--final-episodes", 1, "--steps", 24]
    args = ["--config", tmp_path / "own.yaml", "--V-step-size", 0.5, *looks, "--out", tmp_path / "run"]
    code, _, err = run_command(capsys, "train", *args)
    assert (code, err) == (0, "")
    found = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert [found[name] for name in ("preset", "kappa", "V_step_size")] == ["paper", 0.5, 0.5]


def test_switches_are_spelled_out():
    names = switches(SBEEDConfig)
    assert spell_out(["train", "--no-squash", "--all_starts", "--lam", "1"], names) == [
        "train", "--squash", "False", "--all-starts", "True", "--lam", "1",
    ]  # fmt: skip
    assert spell_out(["--squash", "False"], names) == ["--squash", "False"]


@pytest.mark.parametrize(("args", "config"), [([], QConfig), (["--preset", "paper"], SBEEDConfig)], ids=str)
def test_every_field_is_a_line_of_help(capsys, args, config):
    _, out, _ = run_command(capsys, "train", *args, "--help")
    for name in config.__dataclass_fields__:
        assert f"--{name.replace('_', '-')}" in out
    assert "[0, 1]" in out
    assert "paper: .995" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--env", "Pendulum-v0.5"], ["Pendulum-v0.5", "Pendulum-v1"]),
        (["--env", "Blackjack-v1"], ["Blackjack-v1", "observation space", "not supported"]),
        (["--env", "jax:nothing"], ["jax:nothing", "jax:pendulum"]),
        ([], ["--env", "name an environment"]),
        (["--lam", "-1"], ["--lam: ", "(0, inf)", "-1"]),
        (["--lam", "nan"], ["--lam: "]),
        (["--lam", "much"], ["--lam: got 'much'; --lam FLOAT"]),
        (["--steps", "1e-3"], ["--steps: got '1e-3'; --steps INT"]),
        (["--hidden", "x"], ["--hidden: got 'x'; --hidden INT"]),
        (["--entropy-target", "nan"], ["--entropy-target: must lie in (-inf, inf)"]),
        (["--eta", "1.5"], ["--eta: ", "[0, 1]", "1.5"]),
        (["--env", "Pendulum-v1", "--k", "200"], ["--k: ", "replay", "200"]),
        (["--dual", "nothing"], ["--dual", "nothing", "head"]),
        (["--agent", "dqn"], ["--agent: ", "dqn", "sbeed"]),
        (["--env", "Pendulum-v1", "--preset", "best"], ["--preset: ", "best", "paper"]),
        (["--steps", "0"], ["--steps: "]),
        (["--seed", "-1"], ["--seed: "]),
        (["--seeds", "0"], ["--seeds: "]),
        (["--replay-capacity", "9" * 30], ["--replay-capacity: must lie in [1, 1e+09]"]),
        (["--env", "Pendulum-v1", "--workers", "-1"], ["--workers: "]),
        (["--env", "jax:pendulum", "--noise", "1"], ["--noise: ", "Gymnasium"]),
        (["--lamb", "1"], ["--lamb", "--lam"]),
        (
            ["--V-step-size", "1"],
            ["--V-step-size: the form of preset default", "that of paper, paper-exact, paper-on-policy has"],
        ),
        (
            ["--no-squash"],
            ["--no-squash: the form of preset default", "that of paper, paper-exact, paper-on-policy has"],
        ),
        (["--preset", "paper", "--dual-ridge=1"], ["--dual-ridge: the form of preset paper", "that of default has"]),
        (["--V-actions", "both"], ["--V-actions: is a setting of sbeed 0.1", "train again with this version"]),
        (["--config", "nowhere.yaml"], ["nowhere.yaml"]),
    ],
)
def test_wrong_input_gets_one_line_and_leaves_nothing(capsys, tmp_path, args, words):
    code, out, err = run_command(capsys, "train", *TINY, *args, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert err.startswith("sbeed: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert "None" not in err  # which is what the parser sees of a flag not given
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lam: -1", "lam: must lie"),
        ("lamb: 1", "did you mean lam"),
        (
            "V_step_size: 1",
            "V_step_size: the form of preset default has no such field; that of paper, paper-exact, paper-on-policy",
        ),
        (
            "V_actions: policy",
            "V_actions: is a setting of sbeed 0.1, whose sbeed and pcl are no longer there: train again",
        ),
        ("lam: [", "neither YAML nor"),
        ("steps: x", "steps: "),
    ],
)
def test_a_wrong_file_gets_one_line(capsys, tmp_path, text, words):
    (tmp_path / "own.yaml").write_text(text)
    code, _, err = run_command(
        capsys, "train", "--env", "Pendulum-v1", "--config", tmp_path / "own.yaml", "--out", tmp_path / "run"
    )
    assert code == 2
    assert err.count("\n") == 1
    assert words in err
    assert not (tmp_path / "run").exists()


def test_a_directory_in_use_is_refused(capsys, run):
    before = (run / "metrics.jsonl").read_text()
    code, _, err = _train(capsys, run)
    assert code == 2
    assert "not an empty directory" in err
    assert (run / "metrics.jsonl").read_text() == before


@pytest.mark.parametrize(("field", "step"), [("reward", 1), ("observation", 0)])
def test_a_number_that_is_none_gets_one_line(capsys, tmp_path, field, step):
    class Broken(gymnasium.Wrapper):
        def reset(self, **options):
            obs, info = super().reset(**options)
            return obs * float("nan") if field == "observation" else obs, info

        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, float("nan"), *rest

    gymnasium.register("Broken-v0", lambda: Broken(gymnasium.make("Pendulum-v1")))
    try:
        code, out, err = _train(capsys, tmp_path / "run", env="Broken-v0")
    finally:
        del gymnasium.registry["Broken-v0"]
    assert (code, out) == (3, "")
    assert err == f"sbeed: Broken-v0: {field} is not finite at step {step} of episode 1\n"
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------------------------- eval, video, plot


def test_evaluation_is_that_of_the_last_row(capsys, run):
    code, out, _ = run_command(capsys, "eval", run, "--episodes", 2, "--json")
    answer = json.loads(out)
    assert code == 0
    assert set(answer) == {"mean_return", "std_return", "returns", "lengths"}
    assert answer["lengths"] == [200] * 4
    rows = run_dir.read_rows(run)[-2:]
    assert answer["mean_return"] == pytest.approx(sum(row["return"] for row in rows) / 2)
    code, out, _ = run_command(capsys, "eval", run / "seed_4", "--episodes", 2)
    assert out.startswith(f"return {rows[1]['return']:.1f} +- {rows[1]['return_std']:.1f}")


def test_a_file_imports_no_module_but_the_user_may(capsys, run, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    own = "import gymnasium\ngymnasium.register('Own-v0', lambda: gymnasium.make('Pendulum-v1'))\n"
    (tmp_path / "own_envs.py").write_text(own)
    model = tmp_path / "model"
    shutil.copytree(run / "seed_3", model)
    manifest = json.loads((model / "manifest.json").read_text())
    manifest["env"]["name"] = "own_envs:Own-v0"
    forge(model / "manifest.json", **manifest)
    code, _, err = run_command(capsys, "eval", model, "--episodes", 1)
    assert (code, err.count("\n")) == (2, 1)
    assert "import a module" in err
    assert "own_envs" not in sys.modules
    code, out, _ = run_command(capsys, "eval", model, "--episodes", 1, "--env", "own_envs:Own-v0")
    assert code == 0
    assert out.startswith("return ")


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupted_run_says_where_it_lies(capsys, tmp_path, monkeypatch):
    from sbeed.training import trainer

    advance = trainer.Trainer.advance
    monkeypatch.setattr(
        trainer.Trainer, "advance", lambda *args: (advance(*args), signal.raise_signal(signal.SIGINT))[0]
    )
    code, out, err = _train(capsys, tmp_path / "run")
    assert (code, out) == (130, "")
    assert err.endswith(f"sbeed: interrupted: what was learned until then lies in '{tmp_path / 'run'}'\n")
    assert (tmp_path / "run" / "model").is_dir()


def test_a_film(capsys, run, tmp_path):
    pytest.importorskip("imageio")
    pytest.importorskip("pygame")
    code, out, err = run_command(capsys, "video", run, "--out", tmp_path / "swing.gif")
    assert (code, out, err) == (0, f"{tmp_path / 'swing.gif'}\n", "")
    assert (tmp_path / "swing.gif").stat().st_size > 10_000


def test_a_plot_of_runs(capsys, run, tmp_path):
    code, out, _ = run_command(capsys, "plot", run, tmp_path, "--out", tmp_path / "curves.png")
    assert (code, out) == (0, f"{tmp_path / 'curves.png'}\n")
    assert (tmp_path / "curves.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["eval", "nowhere"], "'nowhere' does not exist"),
        (["eval", "{tmp}"], "holds no saved model"),
        (["eval", "{run}", "--episodes", "0"], "--episodes: must be at least 1"),
        (["video", "{run}", "--out", "film.avi"], "--out: must end in .gif or .mp4"),
        (["video", "{run}", "--out", "nowhere/film.gif"], "no directory 'nowhere'"),
        (["plot", "{tmp}", "--out", "{tmp}/x.png"], "no rows of metrics"),
        (["plot", "{run}", "--out", "{tmp}/x.doc"], "--out: must end in"),
        (["plot", "{run}", "--out", "nowhere/x.png"], "no directory 'nowhere'"),
    ],
)
def test_wrong_runs_get_one_line(capsys, run, tmp_path, args, words):
    code, out, err = run_command(capsys, *(arg.format(run=run, tmp=tmp_path) for arg in args))
    assert (code, out) == (2, "")
    assert err.startswith("sbeed: ")
    assert err.count("\n") == 1
    assert words in err
    assert list(Path(tmp_path).iterdir()) == []


def test_metrics_of_somebody_else_get_one_line(capsys, run, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1}\n')
    code, _, err = run_command(capsys, "plot", run, tmp_path, "--out", tmp_path / "x.png")
    assert (code, err) == (2, f"sbeed: runs: '{tmp_path}' has a metrics.jsonl that sbeed did not write\n")


def test_a_damaged_model_gets_one_line(capsys, run, tmp_path):
    (tmp_path / "model").mkdir()
    for path in (run / "seed_3").iterdir():
        (tmp_path / "model" / path.name).write_bytes(path.read_bytes()[:-1])
    code, _, err = run_command(capsys, "eval", tmp_path)
    assert code == 2
    assert err.count("\n") == 1
    assert "manifest.json" in err
