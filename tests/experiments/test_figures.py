"""The figures as data: what is run, with which agent, and for how long."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sbeed.agents.registry import find
from sbeed.agents.sbeed.grids import PAPER_GRIDS
from sbeed.envs.task import spec_of
from sbeed.experiments import figures
from sbeed.experiments.executors import Job
from sbeed.experiments.figures import ablation, off_policy, on_policy, q_form, replay_size, scores, today
from sbeed.experiments.figures.sizes import SCALES, at_scale
from sbeed.experiments.runner import check_settings, done_in, full_config
from sbeed.experiments.spec import Run, arranged, chosen, describe, read_run, runs_of, shown
from sbeed.training.run import RunSpec

ROOT = Path(__file__).parents[2]
PAPERS = [module.FIGURE for module in (ablation, off_policy, on_policy)]
TODAYS = [q_form.FIGURE, replay_size.FIGURE, scores.FIGURE, today.FIGURE]
FRESH = [figure for figure in (*PAPERS, *TODAYS) if figure is not on_policy.FIGURE]
ALL = [*PAPERS, *TODAYS]
env_spec = cache(spec_of)


@pytest.mark.parametrize(
    ("names", "panels", "curves"),
    [
        ((), 10, 6),
        (("Hopper-v5", "Swimmer-v5"), 4, 6),
        (("PCL", "SBEED, exact dual"), 10, 2),
        (("Hopper-v5", "PCL"), 2, 1),
    ],
)
def test_a_part_of_a_figure_has_a_name(names, panels, curves):
    part = chosen(off_policy.FIGURE, names)
    assert len(part.panels) == panels
    assert {len(panel.curves) for panel in part.panels} == {curves}


def test_a_run_is_named_by_what_it_is():
    spec = RunSpec("Pendulum-v1", fields={"hidden": (4, 4), "lam": 0.1})
    run = Run(spec, 3)
    again = read_run(json.loads(json.dumps(describe(run))))
    assert again == run
    assert again.id == run.id == Run(replace(spec, fields={"lam": 0.1, "hidden": [4, 4]}), 3).id
    others = [Run(spec, 4), Run(replace(spec, steps=5), 3), Run(replace(spec, fields={"lam": 0.2}), 3)]
    assert len({run.id, *(other.id for other in others)}) == 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"env": 1}, "env: expected text"),
        ({"steps": "many"}, "steps: expected a whole number"),
        ({"seed": -1}, "seed: must lie in"),
        ({"fields": [1]}, "not a run that sbeed wrote"),
        ({"more": 1}, "not a run that sbeed wrote"),
    ],
)
def test_a_file_that_is_no_run_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        read_run(describe(Run(RunSpec("Pendulum-v1"), 0)) | change)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
@pytest.mark.parametrize("scale", SCALES)
def test_every_run_is_one_that_its_agent_accepts(figure, scale):
    runs = runs_of(at_scale(figure, scale), SCALES[scale].seeds)
    assert len({run.id for _, run in runs}) == len(runs)
    for _, run in runs:
        spec = env_spec(run.spec.env, run.spec.noise)
        agent = find(run.spec.agent)
        config = agent.preset(run.spec.preset, spec)
        agent.check(type(config)(**{**vars(config), **run.spec.fields}), spec)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_curves_of_a_panel_have_the_same_task_and_steps(figure):
    for panel in figure.panels:
        assert {curve.spec.env for curve in panel.curves} == {panel.env}
        assert len({(curve.spec.steps, curve.spec.evaluate_every) for curve in panel.curves}) == 1
        assert len({curve.label for curve in panel.curves}) == len(panel.curves)
        assert panel.curves[0].spec.steps >= 1_000_000 or figure in TODAYS


@pytest.mark.parametrize("figure", FRESH, ids=lambda figure: figure.name)
def test_figures_have_seeds_that_nothing_was_searched_on(figure):
    assert {run.seed for _, run in runs_of(figure, 5)} == set(range(20, 25))
    assert {run["seed"] for panel in shown(figure, 5) for run in panel["runs"]} == set(range(20, 25))


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_no_two_runs_have_one_title(figure):
    titles = [title for title, _ in runs_of(figure, 2)]
    assert len(set(titles)) == len(titles)


def test_the_ablation_has_the_papers_grids_around_the_preset():
    for panel in ablation.FIGURE.panels:
        name, _, _ = panel.name.partition(", ")
        values = [curve.spec.fields[name] for curve in panel.curves]
        assert values == sorted(set(values))
        assert set(PAPER_GRIDS[name]) <= set(values)
        assert ablation.CENTRE[name] in values
    (centre,) = _shared_by(PAPER_GRIDS)
    (spec,) = {run.spec for _, run in runs_of(ablation.FIGURE, 1) if run.id == centre}
    raw = {"lam": 0.1, "lam_counts": "raw"}  # the paper's grid is of raw rewards
    assert full_config(spec) == full_config(RunSpec(ablation.TASK, preset="paper-exact")) | raw


def test_the_ablation_has_both_ends_of_eta_and_a_task_where_most_of_a_target_is_the_bootstrap():
    for panel in ablation.FIGURE.panels:
        etas = {curve.spec.fields["eta"] for curve in panel.curves}
        assert panel.name.partition(", ")[0] != "eta" or {0.0, 1.0} <= etas
    short = ablation.FIGURE.panels[-1].curves[0].spec
    assert short.noise > 0
    assert short.fields["k"] < ablation.CENTRE["k"]


def _shared_by(names):
    """The runs of the first seed that each of these panels of the ablation shows."""
    ids = [{run["id"] for run in panel["runs"]} for panel in shown(ablation.FIGURE, 1) if panel["name"] in names]
    assert len(ids) == 3
    return set.intersection(*ids)


def test_the_replay_sizes_are_the_only_difference_in_a_panel():
    for panel in replay_size.FIGURE.panels:
        configs = [full_config(curve.spec) for curve in panel.curves]
        sizes = [config.pop("replay_capacity") for config in configs]
        assert sizes == sorted(set(sizes)) == list(replay_size.SIZES.values())
        assert all(config == configs[0] for config in configs)


def test_on_policy_iterations_are_of_52_trajectories():
    for _, run in runs_of(on_policy.FIGURE, 1):
        config = full_config(run.spec)
        assert config["trajectories_per_iteration"] == 52
        assert config.get("on_policy", True)


def test_on_policy_all_have_one_policy_and_one_cap_on_its_step():
    same = ("policy", "features", "gamma", "initial_std", "kl_radius", "fisher_ridge", "replay_capacity")
    for panel in on_policy.FIGURE.panels:
        configs = [full_config(curve.spec) for curve in panel.curves]
        assert len({tuple(config[name] for name in same) for config in configs}) == 1
        assert configs[0]["pi_batch_size"] == configs[0]["replay_capacity"]  # the others look at a whole round


def test_off_policy_all_have_one_policy_and_one_gamma():
    for panel in off_policy.FIGURE.panels:
        configs = [full_config(curve.spec) for curve in panel.curves]
        assert {config["policy"] for config in configs} == {"rbf"}
        assert {config["gamma"] for config in configs} == {0.995}
        assert len({config["features"] for config in configs}) == 1


def test_pcl_is_plain():
    for panel in off_policy.FIGURE.panels:
        (config,) = [full_config(curve.spec) for curve in panel.curves if curve.label == "PCL"]
        assert (config["eta"], config["kappa"], config["pi_credit"], config["prior"]) == (0.0, 1.0, "all", "uniform")


def test_today_all_have_one_gamma_where_the_task_asks_for_one():
    for panel in today.FIGURE.panels:
        gammas = {full_config(curve.spec)["gamma"] for curve in panel.curves}
        assert panel.env not in scores.GAMMAS or gammas == {scores.GAMMAS[panel.env]}


def test_a_figure_is_a_page_of_data():
    for name in ("ablation", "off_policy", "on_policy", "replay_size", "today"):
        assert len((Path(figures.__path__[0]) / f"{name}.py").read_text().splitlines()) <= 60


def test_the_committed_runs_are_those_that_the_figure_asks_for():
    figure = on_policy.FIGURE
    place = ROOT / "results" / "on_policy"
    committed = json.loads((place / "figure.json").read_text())["panels"]
    holding = arranged(figure, 5, done=done_in(place))
    assert committed == shown(figure, 5, holding)
    check_settings(Job(title, run, place / "runs" / run.id) for title, run in runs_of(figure, 5, holding))


# The committed runs of these figures are a record of version 0.1: their figures have been defined anew since.
@pytest.mark.parametrize("figure", [ablation.FIGURE, off_policy.FIGURE], ids=lambda figure: figure.name)
def test_the_record_of_a_former_figure_is_whole(figure):
    place = ROOT / "results" / figure.name.replace("-", "_")
    committed = json.loads((place / "figure.json").read_text())["panels"]
    found = {run.id: run for run in done_in(place)}
    runs = [run for panel in committed for run in panel["runs"]]
    assert {run["id"] for run in runs} == set(found)
    assert all(run["seed"] in found[run["id"]].seeds for run in runs)
    assert not set(found) & {run.id for _, run in runs_of(figure, 5)}
    former = [run for run in found.values() if (run.spec.agent, run.spec.preset) == ("sbeed", "default")]
    assert bool(former) is (figure is off_policy.FIGURE)
    for run in former:  # a figure that goes on over runs of other settings says so
        with pytest.raises(
            ValueError, match=r"was made with .* which is .* now: remove it, or choose another directory"
        ):
            check_settings([Job("former", run, place / "runs" / run.id)])


def test_a_run_cannot_be_changed():
    spec = RunSpec("Pendulum-v1", fields=(given := {"k": 3}))
    run, name = Run(spec, 0), Run(spec, 0).id
    given["k"] = 4
    with pytest.raises(TypeError):
        spec.fields["k"] = 4
    assert run.id == name
    assert len({run, Run(replace(spec), 0), Run(replace(spec, fields={"k": 4}), 0)}) == 2
