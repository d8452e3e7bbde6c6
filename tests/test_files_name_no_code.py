"""No command imports what a file names: all of them are walked, with files that name a module of their own."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from sbeed import cli

GOLDEN = Path(__file__).parent / "golden"
SNEAKY = "sneaky_envs:Pendulum-v1"
heard: list[str] = []


def _hear(event, details):
    """importlib tells of no import: the code of a module is run, by whichever way it came."""
    if event == "exec":
        heard.append(Path(getattr(details[0], "co_filename", "")).stem)


sys.addaudithook(_hear)

COMMANDS = {
    "eval": ["eval", "{model}", "--episodes", "1"],
    "video": ["video", "{model}", "--out", "{new}.gif"],
    "record": ["record", "--env", "Pendulum-v1", "--policy", "{model}", "--steps", "5", "--out", "{new}"],
    "value": ["value", "{model}", "--data", "{data}", "--updates", "1"],
    "inspect": ["inspect", "{model}"],
    "plot": ["plot", "{run}", "--out", "{new}.png"],
    "report": ["report", "{figure}"],
    "data": ["data", "show", "{data}"],
    "resume": ["resume", "{run}"],
    "train": ["train", "--config", "{run}/config.yaml", "--steps", "10", "--out", "{new}"],
    "tune": ["tune", "--config", "{run}/config.yaml", "--over", "lam=0.01,0.1", "--trials", "1", "--out", "{new}"],
    "fit": ["fit", "{data}", "--updates", "1", "--preset", "default", "--hidden", "4", "--out", "{new}"],
    "figure": ["figure", "ablation", "--out", "{figure}", "--only", "nothing of this name"],
    "theory": ["theory", "--mdps", "0"],  # reads no file at all
}


def _change(path, change):
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found, indent=1))


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Golden files, in all of which the environment is called by a module that would say that it was imported."""
    (tmp_path / "sneaky_envs.py").write_text("raise AssertionError('a file imported this')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name, golden in (("model", "model_schema_2"), ("run", "run_schema_2"), ("data", "data_schema_1")):
        shutil.copytree(GOLDEN / golden, tmp_path / name)
    _change(tmp_path / "model" / "manifest.json", lambda found: found["env"].update(name=SNEAKY))
    _change(tmp_path / "data" / "manifest.json", lambda found: found.update(name=SNEAKY))
    config = tmp_path / "run" / "config.yaml"
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "env": SNEAKY}))
    (tmp_path / "figure").mkdir()
    panel = {"name": "a", "env": SNEAKY, "x": "step", "runs": []}
    (tmp_path / "figure" / "figure.json").write_text(json.dumps({"name": "ablation", "title": "t", "panels": [panel]}))
    return {name: tmp_path / name for name in ("model", "run", "data", "figure", "new")}


def test_every_command_is_walked():
    assert COMMANDS.keys() == cli.COMMANDS.keys() | {"train", "tune", "fit"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_makes_no_command_import_a_module(capsys, places, command):
    if command == "tune":
        pytest.importorskip("optuna")
    heard.clear()
    with pytest.raises(SystemExit) as stop:
        cli.main([word.format(**places) for word in COMMANDS[command]])
    assert "sneaky_envs" not in heard
    assert stop.value.code in (0, 1, 2)
    if command in ("eval", "video", "resume", "train", "tune"):
        err = capsys.readouterr().err
        assert stop.value.code == 2
        assert err.count("\n") == 1
        assert "would import a module" in err


def test_what_the_user_names_is_imported(places):
    heard.clear()
    with pytest.raises((SystemExit, AssertionError)):
        cli.main(["video", str(places["model"]), "--out", f"{places['new']}.gif", "--env", SNEAKY])
    assert "sneaky_envs" in heard
