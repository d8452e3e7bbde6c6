"""`sbeed report` of a folder of any runs."""

import json

import pytest
import yaml

from sbeed import cli
from sbeed.reporting.run_folder import read_runs


def _write(path, seeds=(0,), env="Pendulum-v1", steps=(10, 20), films=(), **config):
    path.mkdir(parents=True)
    known = {
        "env": env,
        "agent": "sbeed",
        "preset": "default",
        "steps": steps[-1],
        "seed": seeds[0],
        "seeds": len(seeds),
    }
    (path / "config.yaml").write_text(yaml.safe_dump({**known, "lam": 0.1, **config}))
    rows = [
        {"env": env, "seed": seed, "step": step, "iteration": step, "final": step == steps[-1], "seconds": 1.0,
         "return": float(step + seed)}
        for step in steps for seed in seeds
    ]  # fmt: skip
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for film in films:
        (path / film).write_bytes(b"film")


@pytest.fixture
def folder(tmp_path):
    _write(tmp_path / "a", films=["video.mp4"])
    _write(tmp_path / "b", seeds=(1, 2))
    _write(tmp_path / "other", lam=0.5)
    _write(tmp_path / "deeper" / "sac", agent="sac")
    _write(tmp_path / "hopper", env="Hopper-v5")
    _write(tmp_path / "fitted", data="0" * 64, preset="offline")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    return tmp_path


def test_runs_are_grouped_by_task_agent_and_config(folder):
    figure = read_runs(folder)
    assert figure is not None
    fitted = "Pendulum-v1, from a dataset (steps are updates)"
    assert [panel.name for panel in figure.panels] == ["Hopper-v5", "Pendulum-v1", fitted]
    panel = figure.panels[1]
    seeds = {label: sorted(run.seed for run in panel.of(label)) for label in panel.labels}
    assert seeds == {"sbeed default, lam 0.1": [0, 1, 2], "sbeed default, lam 0.5": [0], "sac default": [0]}
    assert {run.final for run in panel.of("sbeed default, lam 0.1")} == {20, 21, 22}
    assert read_runs(folder / "a").panels[0].labels == ["sbeed default"]


def test_the_page_of_any_runs(folder, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(folder)])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"{folder / 'report.html'}\n"
    page = (folder / "report.html").read_text()
    for words in (
        "Hopper-v5",
        "sbeed default, lam 0.5",
        "21.0 ± 2.484",
        'href="./a/video.mp4"',
        'href="./deeper/sac/config.yaml"',
    ):
        assert words in page
    assert "link/" not in page


def test_a_run_that_has_not_been_evaluated_is_shown_without_a_curve(tmp_path):
    _write(tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").write_text('{"env": "x", "seed": 0, "step": 1, "final": true}\n')
    (run,) = read_runs(tmp_path).runs
    assert not run.curves
    assert run.final is None


def test_a_folder_without_anything_is_one_line(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["report", str(tmp_path)])
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "none of its folders does; nor does it hold a run" in err
