"""`sbeed figure` and `sbeed tune` at the command line: what they leave, what they print, and what they refuse."""

import json

import pytest

from sbeed.experiments import executors
from sbeed.experiments.spec import describe
from sbeed.experiments.worker import Outcome
from sbeed.reporting.figure_folder import RESULT, write_end
from tests.commands import run_command


class Pretending:
    """Every run comes to the same end at once."""

    name, slots = "local", 2
    outcome = Outcome("done")

    def __init__(self, slots=None, members=1):
        self._running = []

    def start(self, job):
        self._running.append(job)

    def ended(self, seconds):
        job = self._running.pop(0)
        if self.outcome.kind == "done":
            job.path.mkdir()
            rows = [
                {"step": n, "iteration": n, "seed": job.run.seed, "return": float(n), "final": n == 2} for n in (1, 2)
            ]
            (job.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            write_end(job.path, describe(job.run), {"outcome": "finished", "return": 2.0, "seconds": 1.0})
        return [(job, self.outcome)]

    def close(self):
        assert self._running == [] or self.outcome.kind == "interrupted"


def test_a_figure_leaves_its_runs_and_pictures(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)
    out = tmp_path / "ablation"
    code, printed, err = run_command(capsys, "figure", "ablation", "--only", "eta", "--out", out)
    assert code == 0
    names = ("figure.json", "curves.png", "curves.svg", "iqm.png", "iqm.svg", "report.html")
    assert printed.split() == [str(out / name) for name in names]
    assert err.count("return 2.0") == 6
    figure = json.loads((out / "figure.json").read_text())
    assert [panel["name"] for panel in figure["panels"]] == ["eta"]
    assert len(list((out / "runs").iterdir())) == 6
    code, _, err = run_command(capsys, "figure", "ablation", "--only", "eta", "--out", out)
    assert (code, err) == (0, "")  # there was nothing left to do
    code, _, err = run_command(capsys, "figure", "on-policy", "--out", out)
    assert code == 2
    assert "another figure (ablation, smoke)" in err


def test_what_is_there_stays_in_the_figure_when_other_things_are_asked_for(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)

    def runs_after(*args):
        assert run_command(capsys, "figure", "ablation", *args, "--out", tmp_path)[0] == 0
        panels = json.loads((tmp_path / "figure.json").read_text())["panels"]
        return {panel["name"]: [(run["label"], run["seed"]) for run in panel["runs"]] for panel in panels}

    first = runs_after("--only", "eta = 1", "--seeds", "2")
    assert first == {panel: [("eta = 1", 20), ("eta = 1", 21)] for panel in ("eta", "eta, Pendulum-v1")}
    assert runs_after("--only", "k = 20") == {**first, "k": [("k = 20", 20)]}
    (tmp_path / "figure.json").write_text('{"name": "ablation", "scale": "smoke"}')
    _, _, err = run_command(capsys, "figure", "ablation", "--out", tmp_path)
    assert err == f"sbeed: '{tmp_path / 'figure.json'}' is not a figure that sbeed wrote\n"


def test_a_figure_may_lie_above_another(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)
    for out in (tmp_path / "below", tmp_path):
        assert run_command(capsys, "figure", "ablation", "--only", "k = 20", "--out", out)[0] == 0
        assert (out / "report.html").read_text().count("<h2>SBEED on noisy transitions</h2>") == 1


def test_a_link_that_no_reader_would_follow_is_refused_before_anything_isrun_command(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs").symlink_to(tmp_path / "elsewhere")
    code, _, err = run_command(capsys, "figure", "ablation", "--only", "k = 20", "--out", tmp_path)
    assert (code, err) == (2, f"sbeed: '{tmp_path / 'runs'}' is a link, which may lead anywhere\n")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_runs_that_cannot_be_read_back_are_said_in_one_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)
    asked = ("figure", "ablation", "--only", "k = 20", "--out", tmp_path)
    assert run_command(capsys, *asked)[0] == 0
    (run,) = (tmp_path / "runs").iterdir()
    (run / RESULT).write_text('{"versions": 3}')
    code, _, err = run_command(capsys, *asked)
    assert (code, err) == (2, f"sbeed: '{run / RESULT}' is not a result that sbeed wrote\n")


def test_what_no_panel_has_is_notrun_command(capsys, tmp_path):
    code, _, err = run_command(capsys, "figure", "ablation", "--only", "k", "lam = 0.01", "--out", tmp_path / "none")
    assert (code, err) == (2, "sbeed: --only: no curve of the figure matches all these names\n")


def test_runs_that_could_not_be_finished_are_said_and_the_others_are_there(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "Local", Pretending)
    monkeypatch.setattr(Pretending, "outcome", Outcome("failed", "the floor is gone"))
    code, _, err = run_command(capsys, "figure", "ablation", "--only", "k", "--out", tmp_path / "k")
    assert code == 3
    assert err.splitlines()[-1].startswith(
        "sbeed: 4 runs could not be finished; the first: Swimmer-v5 (k) k = 1 seed 20 in "
    )
    assert err.endswith("the floor is gone\n")


def test_an_interrupted_figure_says_how_it_goes_on(capsys, tmp_path, monkeypatch):
    def interrupted(self, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(executors, "Local", Pretending)
    monkeypatch.setattr(Pretending, "outcome", Outcome("interrupted"))
    monkeypatch.setattr(Pretending, "ended", interrupted)
    code, _, err = run_command(capsys, "figure", "ablation", "--out", tmp_path / "all")
    assert (code, err) == (130, "sbeed: interrupted: run the same command to continue\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("figure nope", "ablation"),
        (
            "figure ablation --only Hopper-v5",
            "--only: the figure has nothing named 'Hopper-v5'; choose from 'Swimmer-v5', 'lam', 'eta', 'k', "
            "'Pendulum-v1', 'eta, Pendulum-v1'",
        ),
        ("figure on-policy --together", "--together: the seeds of on-policy can only be trained separately"),
        ("figure ablation --seed 3", "--seed: applies to the theory figure alone; --seeds sets the runs per curve"),
        ("figure theory --executor ray", "--executor: the theory figure has no runs"),
        ("figure on-policy --seeds 0", "--seeds: must lie in 1..1000, got 0"),
        ("figure on-policy --address here:1", "--address: requires --executor ray"),
        ("figure on-policy --scale huge", "--scale"),
        ("tune --over lam=1..2", "--env: name an environment"),
        ("tune --env Pendulum-v1 --over lan=1..2", "lan: no such field; did you mean lam?"),
        ("tune --env Pendulum-v1 --over lam=1..2 --lam 3", "--over: lam: cannot be both searched and set"),
        ("tune --env Pendulum-v1 --trials 0", "--trials: must lie in"),
        ("tune --env Pendulum-v0.5 --over lam=1..2", "Pendulum-v1"),
        ("tune --env Pendulum-v1 --eta 2 --over lam=1..2", "--eta: must lie in [0, 1]"),
    ],
)
def test_wrong_input_gets_one_line(capsys, tmp_path, args, words):
    if args.startswith("tune"):
        pytest.importorskip("optuna")
    code, out, err = run_command(capsys, *args.split(), "--out", tmp_path / "there")
    assert (code, out) == (2, "")
    assert err.startswith("sbeed: ")
    assert err.count("\n") == 1
    assert words in err
    assert not any(path.is_file() for path in tmp_path.rglob("*") if path.name != "lock")
