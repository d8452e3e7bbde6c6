"""Figures' folders: what was asked and what there is of it, and files that are not ours."""

import json
import os

import numpy as np
import pytest

from sbeed.reporting import figure_folder, summary
from tests.reporting.folders import ablation, learned, rows_of, unfinished, write_figure, write_run

CONFIG = {"env": "Pendulum-v1", "steps": 300, "steps_per_iteration": 50}


def _panel(*runs, x="step"):
    return {
        "name": "Pendulum",
        "env": "Pendulum-v1",
        "x": x,
        "runs": [dict(zip(("label", "seed", "id"), r)) for r in runs],
    }


@pytest.fixture
def folder(tmp_path):
    """One run that is over, one that was stopped, one that goes on, one that has not begun."""
    write_run(tmp_path, "over", CONFIG, rows_of([1.0, 2.0, 3.0]))
    write_run(tmp_path, "stopped", CONFIG, rows_of([1.0, 2.0], seed=1))
    write_run(tmp_path, "going", CONFIG, rows_of([4.0, 5.0, 6.0], seed=2)[:2])
    runs = [("a", 0, "over"), ("a", 1, "stopped"), ("a", 2, "going"), ("b", 0, "never")]
    return write_figure(tmp_path, [_panel(*runs)])


def test_runs_are_shown_as_far_as_they_are(folder):
    (figure,) = figure_folder.read_results(folder).figures
    over, stopped, going, never = figure.runs
    assert [run.final for run in figure.runs] == [3.0, None, None, None]
    assert [run.steps for run in figure.runs] == [300, 200, 200, 0]
    assert (over.seconds, stopped.seconds, never.seconds) == (6.0, 4.0, None)
    np.testing.assert_array_equal(going.curves["step"], [[100, 200], [4, 5]])
    np.testing.assert_array_equal(going.curves["iteration"], [[2, 4], [4, 5]])
    assert never.curves == {}
    assert figure.labels == ["a", "b"]


def test_only_of_what_is_over_there_is_a_final_return(folder):
    (panel,) = figure_folder.read_figure(folder).panels
    finals = summary.finals(panel)
    assert finals["a"].by_seed == {0: 3.0, 1: None, 2: None}
    assert finals["a"].mean.value == 3
    assert finals["b"].mean is None


@pytest.mark.parametrize("x", ["step", "iteration"])
def test_a_curve_is_of_the_runs_that_are_over_and_ends_where_one_diverged(tmp_path, x):
    (panel,) = figure_folder.read_figure(unfinished(tmp_path)).panels
    curves = summary.curves(panel, "mean", x)
    each = {"step": 1, "iteration": 50}[x]
    ends = {"all": 300, "some": 300, "cut": 200}
    assert {label: one.x[-1] * each for label, one in curves.items()} == ends
    np.testing.assert_allclose(curves["some"].y, [26, 27, 28])  # of two: 21 and 31, ...
    np.testing.assert_allclose(curves["cut"].y, [56, 57])
    assert summary.caveats(panel, x) == {
        "some": "2 of 3 seeds",
        "cut": "2 of 2 seeds, cut where 1 diverged",
        "none": "0 of 1 seeds",
    }


def test_a_curve_over_iterations_says_that_it_ends_with_its_shortest_seed(tmp_path):
    for seed, length in enumerate((3, 5)):
        rows = [{**row, "iteration": length * row["step"] // 100} for row in rows_of([1.0, 2.0, 3.0], seed=seed)]
        write_run(tmp_path, f"r{seed}", CONFIG, rows)
    (panel,) = figure_folder.read_figure(write_figure(tmp_path, [_panel(("a", 0, "r0"), ("a", 1, "r1"))])).panels
    assert summary.caveats(panel, "step") == {}
    assert summary.caveats(panel, "iteration") == {"a": "ends with its shortest seed, at 9 of up to 15"}
    assert summary.curves(panel, "mean", "iteration")["a"].x[-1] == 9


def test_where_no_run_is_over_a_curve_is_of_those_there_are(tmp_path):
    for seed, evaluations in ((0, 2), (1, 1)):
        write_run(tmp_path, f"r{seed}", CONFIG, rows_of([1.0, 2.0, 3.0], seed=seed)[:evaluations])
    figure = figure_folder.read_figure(
        write_figure(tmp_path, [_panel(*(("a", seed, f"r{seed}") for seed in range(3)))])
    )
    np.testing.assert_array_equal(summary.curves(figure.panels[0], "mean", "step")["a"].x, [100])
    assert summary.caveats(figure.panels[0], "step") == {"a": "2 of 3 seeds"}


def test_rows_that_count_their_iterations_are_believed(tmp_path):
    rows = [{**row, "iteration": i} for i, row in zip((1, 4, 9), rows_of([1.0, 2.0, 3.0]))]
    write_run(tmp_path, "r", {**CONFIG, "trajectories_per_iteration": 52}, rows)
    (run,) = figure_folder.read_figure(write_figure(tmp_path, [_panel(("a", 0, "r"))])).runs
    np.testing.assert_array_equal(run.curves["iteration"][0], [1, 4, 9])


def test_rounds_of_trajectories_do_not_tell_how_many_they_were(tmp_path):
    write_run(tmp_path, "r", {**CONFIG, "trajectories_per_iteration": 52}, rows_of([1.0, 2.0]))
    (run,) = figure_folder.read_figure(write_figure(tmp_path, [_panel(("a", 0, "r"))])).runs
    assert list(run.curves) == ["step"]


def test_a_folder_of_figures_and_claims(tmp_path):
    learned(tmp_path / "off_policy", tasks=("Pendulum-v1",))
    ablation(tmp_path / "ablation", seeds=1)
    claim = {"name": "contraction", "holds": True, "held": 3, "mdps": 3, "margin": None, "seconds": 0.5}
    (tmp_path / "theory").mkdir()
    (tmp_path / "theory" / "claims.json").write_text(json.dumps([{**claim, "counterexample_fails": True}]))
    (tmp_path / "theory" / "theory.csv").write_text("panel,series,x,y,lo,hi\na,eta=0,0,1,1,1\n")
    found = figure_folder.read_results(tmp_path)
    assert [figure.name for figure in found.figures] == ["ablation", "off-policy"]
    assert found.claims[0]["name"] == "contraction"
    assert found.theory == [{"panel": "a", "series": "eta=0", "x": 0, "y": 1, "lo": 1, "hi": 1}]


def test_a_run_that_diverged_is_over_and_scores_nothing(tmp_path):
    write_run(tmp_path, "good", CONFIG, rows_of([1.0, 2.0, 3.0]))
    write_run(tmp_path, "late", CONFIG, rows_of([1.0, 2.0, 9.0], seed=1)[:2])
    write_run(tmp_path, "worse", CONFIG, rows_of([1.0, 1.0, 1.0]))
    (tmp_path / "runs" / "early").mkdir()  # before its first row: nothing else is left of it
    for id in ("late", "early"):
        (tmp_path / "runs" / id / "result.json").write_text('{"outcome": "diverged", "return": null}')
    runs = [("a", 0, "good"), ("a", 1, "late"), ("a", 2, "early"), ("b", 0, "worse"), ("b", 0, "worse")]
    figure = figure_folder.read_figure(write_figure(tmp_path, [_panel(*runs)], versions={"jax": "0.10.2"}))
    assert figure.versions == {"jax": "0.10.2"}
    assert [run.diverged for run in figure.runs] == [False, True, True, False, False]
    final = summary.finals(figure.panels[0])["a"]
    assert (final.mean.value, final.diverged) == (3, 2)
    (one,) = summary.comparisons(figure)
    # Scores 1, 0, 0 against 0, 0: of three one wins and two tie.
    assert one.improvement["a", "b"].value == pytest.approx((1 + 0.5 + 0.5) / 3)


def test_one_run_alone_is_compared_with_nothing(tmp_path):
    assert summary.comparisons(figure_folder.read_figure(ablation(tmp_path, seeds=1))) == []


def test_the_same_runs_over_the_other_axis_are_one_panel(tmp_path):
    write_run(tmp_path, "a", CONFIG, rows_of([1.0, 2.0, 3.0]))
    write_run(tmp_path, "b", CONFIG, rows_of([1.0, 2.0, 5.0]))
    runs = [("a", 0, "a"), ("b", 0, "b")]
    both = [_panel(*runs, x="iteration"), _panel(*runs, x="step")]
    (panel,) = figure_folder.read_figure(write_figure(tmp_path, both)).panels
    assert panel.x == "iteration"  # the first


def test_a_long_iteration_counts_with_its_last_evaluation(tmp_path):
    rows = [{**row, "iteration": i} for i, row in zip((1, 1, 2), rows_of([1.0, 2.0, 3.0]))]
    write_run(tmp_path, "r", {**CONFIG, "trajectories_per_iteration": 52}, rows)
    (run,) = figure_folder.read_figure(write_figure(tmp_path, [_panel(("a", 0, "r"))])).runs
    np.testing.assert_array_equal(run.curves["iteration"], [[1, 2], [2, 3]])


def test_shared_labels_are_compared_over_all_tasks_others_panel_by_panel(tmp_path):
    (one,) = summary.comparisons(figure_folder.read_figure(learned(tmp_path / "a")))
    assert one.title == "3 tasks"
    assert set(one.improvement) == {("SBEED default", "SBEED paper"), ("SBEED paper", "SBEED default")}
    assert one.improvement["SBEED default", "SBEED paper"].value > 0.5
    three = summary.comparisons(figure_folder.read_figure(ablation(tmp_path / "b", seeds=2)))
    assert [one.title for one in three] == ["over lam", "over eta", "over k"]
    assert list(three[0].profiles) == ["lam = 0.001", "lam = 0.01", "lam = 0.1", "lam = 1"]


def test_panels_of_one_task_are_not_compared_as_if_they_were_several(tmp_path):
    for id in ("a0", "a1", "b0", "b1"):
        write_run(tmp_path, id, {**CONFIG, "steps": 100}, rows_of([1.0], seed=int(id[1])))
    runs = [{"label": id[0], "seed": int(id[1]), "id": id} for id in ("a0", "a1", "b0", "b1")]
    panels = [{"name": name, "env": "Pendulum-v1", "x": "step", "runs": runs} for name in ("kappa 0", "kappa 1")]
    found = summary.comparisons(figure_folder.read_figure(write_figure(tmp_path, panels)))
    assert [one.title for one in found] == ["kappa 0", "kappa 1"]


def test_a_run_has_one_score_in_all_panels_of_its_task(tmp_path):
    returns = {"own": (2.0, 4.0), "low": (0.0, 1.0), "high": (7.0, 8.0), "far": (1000.0, 2000.0)}
    for label, (first, second) in returns.items():
        write_run(tmp_path, f"{label}0", CONFIG, rows_of([0.0, 0.0, first]))
        write_run(tmp_path, f"{label}1", CONFIG, rows_of([0.0, 0.0, second], seed=1))

    def panel(env, *labels):
        runs = [{"label": label, "seed": seed, "id": f"{label}{seed}"} for label in labels for seed in (0, 1)]
        return {"name": " ".join(labels), "env": env, "x": "step", "runs": runs}

    panels = [panel("A", "own", "low"), panel("A", "own", "high"), panel("B", "far")]
    found = summary.comparisons(figure_folder.read_figure(write_figure(tmp_path, panels)))
    scores = [{label: float(iqm.value) for label, iqm in one.iqm.items()} for one in found]
    assert scores == [  # the returns on A are from 0 to 8
        pytest.approx({"own": 3 / 8, "low": 0.5 / 8}),
        pytest.approx({"own": 3 / 8, "high": 7.5 / 8}),
    ]


# ------------------------------------------------------------------------------------------------- hostile files


def _about(folder, **changes):
    about = json.loads((folder / "figure.json").read_text())
    (folder / "figure.json").write_text(json.dumps({**about, **changes}))


def _id(id):
    return lambda folder: _about(folder, panels=[_panel(("a", 0, id))])


def _figure(content):
    return lambda folder: (folder / "figure.json").write_bytes(content)


def _metrics(content):
    return lambda folder: (folder / "runs" / "over" / "metrics.jsonl").write_bytes(content)


def _link(name):
    def make(folder):
        path, away = folder / name, folder / "elsewhere"
        path.rename(away)
        path.symlink_to(away)

    return make


def _pipe(folder):
    (folder / "runs" / "over" / "metrics.jsonl").unlink()
    os.mkfifo(folder / "runs" / "over" / "metrics.jsonl")


def _large(folder):
    with (folder / "figure.json").open("r+") as file:
        file.truncate(2**30)  # takes no room


HOSTILE = {
    "an id that leads up": _id("../over"),
    "an absolute id": _id("/etc"),
    "an id that is a dot": _id(".."),
    "an id with a line's end": _id("over\n"),
    "an id that is no text": _id(["over"]),
    "no panels": _figure(b'{"name": "a", "title": "b"}'),
    "a list": _figure(b"[]"),
    "a number": _figure(b"7"),
    "no JSON": _figure(b"{"),
    "no text": _figure(bytes(range(128, 256))),
    "deep nesting": _figure(b"[" * 100_000),
    "panels that are a number": lambda folder: _about(folder, panels=3),
    "another axis": lambda folder: _about(folder, panels=[_panel(x="__proto__")]),
    "a seed that is none": lambda folder: _about(folder, panels=[_panel(("a", -1, "over"))]),
    "a name beyond reading": lambda folder: _about(folder, name="x" * 10**6),
    "runs beyond counting": lambda folder: _about(folder, panels=[_panel(*[("a", 0, "over")] * 10_001)]),
    "labels beyond counting": lambda folder: _about(
        folder, panels=[_panel(*((str(i), 0, "over") for i in range(101)))]
    ),
    "a label that is a list": lambda folder: _about(folder, panels=[_panel((["a"], 0, "over"))]),
    "panels beyond counting": lambda folder: _about(folder, panels=[_panel()] * 101),
    "a file beyond memory": _large,
    "rows that are lists": _metrics(b"[1]\n"),
    "a step that is no count": _metrics(b'{"step": -1, "return": 1}\n'),
    "a step that is true": _metrics(b'{"step": true, "return": 1}\n'),
    "a step beyond counting": _metrics(b'{"step": 1' + b"0" * 30 + b', "return": 1}\n'),
    "a row without a return": _metrics(b'{"step": 1}\n'),
    "a pipe": _pipe,
    "a link to rows": _link("runs/over/metrics.jsonl"),
    "a link to a run": _link("runs/over"),
    "a link to all runs": _link("runs"),
    "versions that are a number": lambda folder: _about(folder, versions=3),
    "a link to the figure": _link("figure.json"),
    "a config that calls": lambda f: (f / "runs/over/config.yaml").write_text("a: !!python/object/apply:os.abort []"),
    "claims that are none": lambda folder: (folder / "claims.json").write_text('[{"name": 7}]'),
    "a theory without numbers": lambda folder: (folder / "theory.csv").write_text("panel,series,x\na,b,c\n"),
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_ours_is_refused_in_one_line(folder, make):
    make(folder)
    with pytest.raises(ValueError, match=r"'.*'") as refused:
        figure_folder.read_results(folder)
    assert len(str(refused.value)) < 1000
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", ["1e999", "NaN", "1e200", "null", '"7"', "true", "[1]"])
def test_a_return_that_is_no_number_is_a_gap(folder, value):
    row = b'{"step": 100, "return": 1.0}\n{"step": 300, "final": true, "return": %s}\n' % value.encode()
    (folder / "runs" / "over" / "metrics.jsonl").write_bytes(row)
    run = figure_folder.read_figure(folder).runs[0]
    assert run.final is None
    np.testing.assert_array_equal(run.curves["step"][1], [1, np.nan])


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileNotFoundError, match=str(path)):
            figure_folder.read_results(path)


@pytest.mark.parametrize("text", ["[]", '{"machine": 3}', '{"versions": 3}', '{"machine": "' + 400 * "x" + '"}'])
def test_a_result_that_is_none_is_said(tmp_path, text):
    write_run(tmp_path, "one", {"env": "Pendulum-v1", "steps": 200}, rows_of([1.0, 2.0]))
    (tmp_path / "runs" / "one" / "result.json").write_text(text)
    panel = {"name": "p", "env": "Pendulum-v1", "x": "step", "runs": [{"label": "a", "seed": 0, "id": "one"}]}
    with pytest.raises(ValueError, match="is not a result that sbeed wrote"):
        figure_folder.read_figure(write_figure(tmp_path, [panel]))


def test_the_members_of_a_population_are_runs_of_their_own(tmp_path):
    kept, lost = rows_of([1.0, 2.0, 3.0]), rows_of([1.0, 2.0, 9.0], seed=1)[:2]
    write_run(tmp_path, "both", CONFIG, [*kept, *lost])
    (tmp_path / "runs" / "both" / "result.json").write_text('{"outcome": "finished", "lost": [1], "return": 3.0}')
    figure = figure_folder.read_figure(write_figure(tmp_path, [_panel(("a", 0, "both"), ("a", 1, "both"))]))
    assert [(run.final, run.diverged) for run in figure.runs] == [(3.0, False), (None, True)]
