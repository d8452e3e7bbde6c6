"""A search: what it asks for, when it stops, and that it goes on."""

import json
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import pytest
import yaml

pytest.importorskip("optuna")

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from sbeed import cli
from sbeed.agents.sbeed.grids import PAPER_GRIDS
from sbeed.experiments import search
from sbeed.experiments.search import Search, open_study, write_best
from sbeed.experiments.space import fields_of, paper_space, read_space
from sbeed.experiments.spec import describe
from sbeed.experiments.worker import Outcome
from sbeed.reporting.figure_folder import RESULT, write_end
from sbeed.storage.lock import locked
from sbeed.storage.run_dir import read_config
from sbeed.training.run import RunSpec
from tests.experiments.silent import Silent
from tests.tiny import TINY

BASE = RunSpec("Pendulum-v1", steps=100, evaluate_every=50, fields=TINY)


class Answering:
    """Runs that are worth their lam, less if the seed is larger: a look at a row, one at the result, the end."""

    name = "answering"

    def __init__(self, most=1000, slots=2, step=50):
        self.slots, self.started, self.stopped, self._running = slots, [], [], []
        self._most, self._evaluated = most, step

    def start(self, job):
        if len(self.started) == self._most:
            raise KeyboardInterrupt
        job.path.mkdir(parents=True, exist_ok=True)
        self.started.append(job.run)
        self._running.append(job)

    def ended(self, seconds):
        if not self._running:
            return []
        job = self._running.pop(0)
        row = {"step": self._step(job), "return": self._worth(job), "final": False}
        if not (job.path / "metrics.jsonl").exists():
            (job.path / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        elif not (job.path / RESULT).exists():
            write_end(job.path, describe(job.run), {"outcome": "finished", "return": self._worth(job)})
        else:
            return [(job, Outcome("done"))]
        self._running.append(job)
        return []

    def _step(self, job):
        return self._evaluated

    def _worth(self, job):
        return job.run.spec.fields["lam"] - 0.001 * job.run.seed

    def stop(self, job):
        self.stopped.append(job.run)
        self._running.remove(job)


def _search(out, space, trials, executor, seeds=(0,)):
    out.mkdir(exist_ok=True)
    study = open_study(out, space, BASE, seeds)
    Search(study, space, BASE, seeds, out).run(trials, executor, Silent())
    return study


def test_the_words_of_a_space():
    found = read_space(
        "sbeed", "paper", ["lam=1e-3..0.1", "eta=0.2..0.5", "k=1..5", "batch-size=16,64", "whiten=true,false"]
    )
    assert found == {
        "lam": FloatDistribution(0.001, 0.1, log=True),
        "eta": FloatDistribution(0.2, 0.5),
        "k": IntDistribution(1, 5),
        "batch_size": CategoricalDistribution((16, 64)),
        "whiten": CategoricalDistribution((True, False)),
    }


def test_the_papers_grids_are_a_space_with_one_rate_for_both_critics():
    space = paper_space("sbeed", "paper", lambda fields: True)
    assert {name: one.choices for name, one in space.items()} == dict(PAPER_GRIDS)
    assert set(paper_space("sbeed", "default", lambda fields: True)) == set(PAPER_GRIDS) - {"learning_rate"}
    assert fields_of({"learning_rate": 0.1, "k": 1}) == {"V_step_size": 0.1, "dual_step_size": 0.1, "k": 1}
    assert set(paper_space("sac", "default", lambda fields: True)) == {"lam", "steps_per_iteration", "batch_size"}


def test_of_the_papers_grids_only_what_an_agent_can_have_is_asked_for():
    pcl = RunSpec("Pendulum-v1", "pcl")
    assert set(paper_space("pcl", "default", partial(search.goes_with, pcl))) == set(PAPER_GRIDS) - {
        "eta"
    }  # without a dual


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("lam", "must be a field and its values"),
        ("lan=1..2", "did you mean lam"),
        (
            "whiten=true",
            "whiten: the form of preset default has no such field; that of paper, paper-exact, paper-on-policy has",
        ),
        ("lam=2..1", "from a number to a larger one"),
        ("lam=-1..1", "lam: must lie in"),
        ("lam=[..1", "lam: expected a number"),
        ("hidden=1,2", "several numbers"),
        ("k=1,x", "k: expected a whole number"),
        ("dual=net,foo", "dual: must be one of"),
        ("dual=net..none", "from a number to a larger one"),
    ],
)
def test_wrong_words_are_one_line(word, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_space("sbeed", "default", [word])


@pytest.mark.parametrize("words", [("k=1..5", "k=1,2"), ("batch-size=16,64", "batch_size=32,64")])
def test_a_field_is_named_once(words):
    with pytest.raises(ValueError, match=r"^(k|batch_size): is named twice[^\n]*$"):
        read_space("sbeed", "default", words)


def test_the_best_of_all_trials_becomes_a_file_of_settings(tmp_path, capsys):
    executor, out = Answering(slots=1), tmp_path / "search"
    study = _search(out, read_space("sbeed", "default", ["lam=0.01..0.9"]), 8, executor, seeds=(0, 1))
    lams = [run.spec.fields["lam"] for run in executor.started]
    assert len(study.trials) == 8
    assert len(set(lams)) == 8
    assert study.best_value == pytest.approx(max(lams) - 0.0005)
    settings = read_config(write_best(out, study, BASE))
    assert settings["lam"] == max(lams)
    run = ["train", "--config", str(out / "best.yaml"), "--steps", "8", "--final-episodes", "1"]
    with pytest.raises(SystemExit) as stop:
        cli.main([*run, "--out", str(tmp_path / "run")])
    assert stop.value.code == 0, capsys.readouterr().err
    assert read_config(tmp_path / "run" / "config.yaml")["lam"] == max(lams)


def test_the_command_runs_its_trials_and_a_second_time_only_what_is_new(tmp_path, capsys):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump({**TINY, "hidden": list(TINY["hidden"])}))
    size = {"env": "Pendulum-v1", "steps": 100, "final-episodes": 1, "config": tmp_path / "tiny.yaml"}
    words = [word for name, value in size.items() for word in (f"--{name}", str(value))]
    found = []
    for trials in (1, 2):
        command = ["tune", *words, "--over", "eta=0.2..0.8", "--trials", str(trials), "--out", str(tmp_path / "out")]
        with pytest.raises(SystemExit) as stop:
            cli.main(command)
        assert stop.value.code == 0, capsys.readouterr().err
        paths = (tmp_path / "out").rglob(RESULT)
        found.append({path.parent: json.loads(path.read_text())["return"] for path in paths})
    first, both = found
    assert (len(first), len(both)) == (1, 2)
    assert first.items() <= both.items()
    best = read_config(max(both, key=both.__getitem__) / "config.yaml")
    assert read_config(tmp_path / "out" / "best.yaml")["eta"] == best["eta"]


def test_trials_that_do_no_better_than_most_are_ended_early(tmp_path):
    executor = Answering()
    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.01..0.9"]), 30, executor)
    pruned = study.get_trials(states=(TrialState.PRUNED,))
    assert len(pruned) == len(executor.stopped) > 3
    assert max(trial.params["lam"] for trial in pruned) < study.best_params["lam"]


def test_trials_whose_iterations_have_other_lengths_are_compared(tmp_path):
    class Uneven(Answering):
        def _step(self, job):
            return 50 + len(self.started) % 40

    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.01..0.9"]), 30, Uneven())
    assert {step for trial in study.trials for step in trial.intermediate_values} == {50}
    assert len(study.get_trials(states=(TrialState.PRUNED,))) > 3


def test_a_trial_is_behind_only_where_five_others_were_evaluated():
    four = [{25: 1.0, 50: 2.0}] * 4
    assert not search.is_behind({50: 0.0}, four)
    assert not search.is_behind({50: 0.0}, [*four, {25: 1.0}])
    assert search.is_behind({50: 0.0}, [*four, {50: 1.0}])
    assert not search.is_behind({25: 2.0, 50: 0.0}, [*four, {50: 1.0}])  # its best counts


@pytest.mark.parametrize("step", [20, 25])
def test_no_trial_is_ended_before_a_quarter_of_its_steps(tmp_path, monkeypatch, step):
    monkeypatch.setattr(f"{__name__}.BASE", replace(BASE, evaluate_every=step))
    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.01..0.9"]), 30, Answering(step=step))
    assert bool(study.get_trials(states=(TrialState.PRUNED,))) == (step == 25)


def test_a_trial_that_was_asked_for_again_and_again_is_one_other(tmp_path):
    executor = Answering()
    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.1,0.2,0.3,0.4,0.5"]), 40, executor)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 40
    assert len(executor.started) == 5


class Storing(Answering):
    """An executor with runs that have checkpoints."""

    def start(self, job):
        super().start(job)
        for name in ("checkpoints/step_000000050/state", "replay/part", "config.yaml"):
            (job.path / name).parent.mkdir(parents=True, exist_ok=True)
            (job.path / name).touch()


class Lingering(Storing):
    """An executor with workers that take a while to end."""

    def __init__(self):
        super().__init__()
        self._ending = ExitStack()

    def ended(self, seconds):
        self._ending.close()
        return super().ended(seconds)

    def stop(self, job):
        super().stop(job)
        self._ending.enter_context(locked(job.path))
        self._ending.callback((job.path / "replay" / "last").touch)


def test_of_runs_that_were_ended_early_rows_and_settings_are_left_and_they_never_go_on(tmp_path):
    space = read_space("sbeed", "default", ["lam=0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8"])
    first, then = Lingering(), Lingering()
    _search(tmp_path, space, 30, first)
    study = _search(tmp_path, space, 50, then)
    assert first.stopped
    for run in first.stopped:
        path = tmp_path / "runs" / run.id
        assert {found.name for found in path.iterdir()} == {"config.yaml", "metrics.jsonl", "lock"}
    started = [run.id for run in first.started + then.started]
    assert len(started) == len(set(started))
    pruned = study.get_trials(states=(TrialState.PRUNED,))
    assert len(pruned) > len({trial.params["lam"] for trial in pruned})  # the same values were asked for again
    assert all(50 in trial.intermediate_values for trial in pruned)


def test_checkpoints_that_a_broken_off_search_left_are_deleted(tmp_path, monkeypatch):
    def interrupt(path):
        raise KeyboardInterrupt

    space, first, then = read_space("sbeed", "default", ["lam=0.01..0.9"]), Storing(), Storing()
    with monkeypatch.context() as patch:
        patch.setattr(search, "clear", interrupt)
        with pytest.raises(KeyboardInterrupt):
            _search(tmp_path, space, 30, first)
    (stopped,) = first.stopped
    assert (tmp_path / "runs" / stopped.id / "replay").exists()
    _search(tmp_path, space, 30, then)
    assert not (tmp_path / "runs" / stopped.id / "replay").exists()
    assert stopped not in then.started


def test_a_run_that_dies_with_its_trial_is_not_started_again(tmp_path):
    class Failing(Answering):
        """Both seeds end at once: one for good."""

        def ended(self, seconds):
            kinds = {0: "failed", 1: "died"}
            ended = [(job, Outcome(kinds[job.run.seed])) for job in self._running]
            self._running = []
            return ended

    executor = Failing()
    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.01..0.9"]), 1, executor, seeds=(0, 1))
    assert [run.seed for run in executor.started] == [0, 1]
    assert executor.stopped == []
    assert [trial.state for trial in study.trials] == [TrialState.PRUNED]


@pytest.mark.parametrize("torn", [b'{"op_code":6,"work', b'{"op_code":6,"work\n', b"\0\0\0\0", b"\r\xff\n", b"7"])
def test_a_line_that_a_power_cut_tore_is_no_loss(tmp_path, torn):
    space, journal = read_space("sbeed", "default", ["lam=0.01..0.9"]), tmp_path / "journal.log"
    values = [trial.value for trial in _search(tmp_path, space, 3, Answering()).trials]
    whole = journal.read_bytes()
    journal.write_bytes(whole + torn)
    study = _search(tmp_path, space, 4, Answering())
    assert [trial.value for trial in study.trials][:3] == values
    assert len(study.trials) == 4
    assert journal.read_bytes().startswith(whole)
    assert [json.loads(line) for line in journal.read_text().splitlines()]


def test_a_search_goes_on_wherever_its_journal_was_cut(tmp_path):
    space, journal = read_space("sbeed", "default", ["lam=0.01..0.9"]), tmp_path / "journal.log"
    _search(tmp_path, space, 2, Answering())
    whole = journal.read_bytes()
    for size in range(1, len(whole), 97):
        journal.write_bytes(whole[:size])
        study = _search(tmp_path, space, 2, Answering())
        assert len(study.get_trials(states=(TrialState.COMPLETE,))) == 2


@pytest.mark.parametrize("line", [b'{"op_code":6,"work\n', b"[]\n", b"{}\n", b'{"op_code":99}\n'])
def test_a_journal_that_is_otherwise_damaged_is_one_line(tmp_path, line):
    space, journal = read_space("sbeed", "default", ["lam=0.01..0.9"]), tmp_path / "journal.log"
    _search(tmp_path, space, 1, Answering())
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    damaged = b"".join([first, line, *rest, b"torn"])
    journal.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"journal.log' is damaged[^\n]*$"):
        _search(tmp_path, space, 2, Answering())
    assert journal.read_bytes() in (damaged, damaged.removesuffix(b"torn"))
    assert {path.name for path in tmp_path.glob("journal*")} == {"journal.log"}  # and no lock is left


def test_a_search_that_was_broken_off_goes_on_with_its_runs(tmp_path):
    space, first, then = read_space("sbeed", "default", ["lam=0.01..0.9"]), Answering(most=3), Answering()
    with pytest.raises(KeyboardInterrupt):
        _search(tmp_path, space, 6, first)
    done = {path.parent.name for path in tmp_path.glob(f"runs/*/{RESULT}")}
    study = _search(tmp_path, space, 6, then)
    ended = study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))
    assert len(ended) == 6
    assert {run.id for run in first.started} - done <= {run.id for run in then.started}
    assert done.isdisjoint({run.id for run in then.started})
    assert _search(tmp_path, space, 6, Answering(most=0)).best_value == study.best_value


def test_another_search_is_refused(tmp_path):
    _search(tmp_path, read_space("sbeed", "default", ["lam=0.1,0.2"]), 1, Answering())
    with pytest.raises(ValueError, match="another search"):
        _search(tmp_path, read_space("sbeed", "default", ["lam=0.1,0.3"]), 1, Answering())


def test_the_same_values_are_run_once_and_values_that_do_not_go_together_not_at_all(tmp_path):
    executor = Answering()
    study = _search(tmp_path / "same", read_space("sbeed", "default", ["lam=0.5,0.5"]), 4, executor)
    assert len(executor.started) == 1
    assert [trial.value for trial in study.trials] == [0.5] * 4
    executor = Answering()
    study = _search(tmp_path / "wrong", read_space("sbeed", "default", ["k=2000,3000", "lam=0.1,0.2"]), 2, executor)
    assert executor.started == []
    assert [trial.state for trial in study.trials] == [TrialState.PRUNED] * 2


def test_values_that_were_refused_are_not_asked_for_again_and_again(tmp_path):
    class Refusing(Answering):
        def ended(self, seconds):
            return [(self._running.pop(), Outcome("refused", "no room"))]

    space = read_space("sbeed", "default", ["lam=0.01..0.9"])
    for _ in range(2):
        with pytest.raises(ValueError, match="no room"):
            _search(tmp_path, space, 2, Refusing(slots=1))
    study = _search(tmp_path, space, 2, Answering())
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.FAIL] * 2 + [TrialState.COMPLETE] * 2
    assert len({trial.params["lam"] for trial in study.trials}) == 4


def test_a_cluster_that_has_no_cores_yet_is_waited_for(tmp_path):
    class Growing(Answering):
        def ended(self, seconds):
            self.slots += 1
            return super().ended(seconds)

    study = _search(tmp_path, read_space("sbeed", "default", ["lam=0.01..0.9"]), 2, Growing(slots=0))
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 2


def test_pruning_looks_at_steps_that_all_seeds_have_reached(tmp_path):
    for name, steps in (("a", (10, 20, 30)), ("b", (10, 20))):
        (tmp_path / name).mkdir()
        rows = [{"step": step, "return": step if name == "a" else 0, "final": step == 30} for step in steps]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert search.curve([tmp_path / "a", tmp_path / "b"], every=10) == {10: 5, 20: 10}
    assert search.curve([tmp_path / "a", tmp_path / "c"], every=10) == {}


def test_an_evaluation_counts_for_the_step_that_it_was_due_at(tmp_path):
    for name, step in (("a", 80_000), ("b", 81_000)):
        (tmp_path / name).mkdir()
        row = {"step": step, "return": step, "final": False}
        (tmp_path / name / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    assert search.curve([tmp_path / "a"], every=20_000) == {80_000: 80_000}
    assert search.curve([tmp_path / "a", tmp_path / "b"], every=20_000) == {80_000: 80_500}
