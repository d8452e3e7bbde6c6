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
from sbeed.experiments.figures import ablation, off_policy, on_policy, q_form, scores
from sbeed.experiments.figures.sizes import SCALES, at_scale
from sbeed.experiments.runner import check_settings, done_in, full_config
from sbeed.experiments.spec import Run, arranged, chosen, describe, read_run, runs_of, shown
from sbeed.training.run import RunSpec

ROOT = Path(__file__).parents[2]
PAPERS = [module.FIGURE for module in (ablation, off_policy, on_policy)]
TODAYS = [q_form.FIGURE, scores.FIGURE]
ALL = [*PAPERS, *TODAYS]
env_spec = cache(spec_of)


@pytest.mark.parametrize(
    ("names", "panels", "curves"),
    [
        ((), 10, 7),
        (("Hopper-v5", "Swimmer-v5"), 4, 7),
        (("SAC", "SBEED (paper)"), 10, 2),
        (("Hopper-v5", "SAC"), 2, 1),
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


@pytest.mark.parametrize("figure", TODAYS, ids=lambda figure: figure.name)
def test_todays_figures_have_seeds_that_nothing_was_searched_on(figure):
    assert {run.seed for _, run in runs_of(figure, 5)} == set(range(20, 25))
    assert {run["seed"] for panel in shown(figure, 5) for run in panel["runs"]} == set(range(20, 25))


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_no_two_runs_have_one_title(figure):
    titles = [title for title, _ in runs_of(figure, 2)]
    assert len(set(titles)) == len(titles)


def test_the_ablation_has_the_papers_grids_around_the_preset():
    for panel in ablation.FIGURE.panels:
        name, _, rest = panel.name.partition(", ")
        values = [curve.spec.fields[name] for curve in panel.curves]
        assert values == sorted(set(values))
        assert rest == "others best" or set(PAPER_GRIDS[name]) <= set(values)
    assert len(_shared_by(PAPER_GRIDS)) == 1
    assert full_config(ablation.FIGURE.panels[0].curves[0].spec) == full_config(RunSpec(ablation.TASK, preset="paper"))


def test_around_the_ablations_best_values_there_is_less_and_more():
    for name, values in ablation.AROUND_BEST.items():
        assert values[0] < ablation.BEST[name] < values[-1]
        assert set(values) <= set(ablation.GRIDS[name])
    names = {f"{name}, others best" for name in ablation.BEST}
    (centre,) = _shared_by(names)
    assert centre == Run(replace(ablation.FIGURE.panels[0].curves[0].spec, fields=ablation.BEST), 0).id


def _shared_by(names):
    """The runs of seed 0 that each of these panels of the ablation shows."""
    ids = [{run["id"] for run in panel["runs"]} for panel in shown(ablation.FIGURE, 1) if panel["name"] in names]
    assert len(ids) == 3
    return set.intersection(*ids)


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


def test_off_policy_all_have_one_gamma_where_the_task_asks_for_one():
    for panel in off_policy.FIGURE.panels:
        gammas = {full_config(curve.spec)["gamma"] for curve in panel.curves}
        assert panel.env not in off_policy.GAMMAS or gammas == {off_policy.GAMMAS[panel.env]}


def test_a_figure_is_a_page_of_data():
    for name in ("ablation", "off_policy", "on_policy"):
        assert len((Path(figures.__path__[0]) / f"{name}.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize("figure", PAPERS, ids=lambda figure: figure.name)
def test_the_committed_runs_are_those_that_the_figure_asks_for(figure):
    place = ROOT / "results" / figure.name.replace("-", "_")
    committed = json.loads((place / "figure.json").read_text())["panels"]
    holding = arranged(figure, 5, done=done_in(place))
    assert committed == shown(figure, 5, holding)
    tasks = [Job(title, run, place / "runs" / run.id) for title, run in runs_of(figure, 5, holding)]
    former = [job for job in tasks if (job.run.spec.agent, job.run.spec.preset) == ("sbeed", "default")]
    check_settings(job for job in tasks if job not in former)
    for job in former:  # of sbeed 0.1, until the new default's are there: a figure that goes on says so
        with pytest.raises(
            ValueError, match=r"was made with .* which is .* now: remove it, or choose another directory"
        ):
            check_settings([job])


def test_a_run_cannot_be_changed():
    spec = RunSpec("Pendulum-v1", fields=(given := {"k": 3}))
    run, name = Run(spec, 0), Run(spec, 0).id
    given["k"] = 4
    with pytest.raises(TypeError):
        spec.fields["k"] = 4
    assert run.id == name
    assert len({run, Run(replace(spec), 0), Run(replace(spec, fields={"k": 4}), 0)}) == 2
