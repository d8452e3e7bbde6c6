"""The page of results/offline is arithmetic on rows; the committed one is that of the committed rows."""

from pathlib import Path

import pytest
from benchmarks import rows
from benchmarks.offline import page
from benchmarks.offline.figure import offline_figure

ROOT = Path(__file__).parent.parent
ORIGIN = {"commit": "abc1234", "machine": "a machine, 2 cores"}


def _result(seed, final, study="cartpole"):
    told = {"transitions": 50_000, "data_return": 22.0, "effective": 900.0, "preset": "offline"}
    return {"study": study, "seed": seed, "return": final, **told, **ORIGIN}


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [([450] * 5, "| met |"), ([500, 500, 500, 500, 249], "| **missed** |"), ([500], "| met so far (1 of 5 seeds) |")],
)
def test_a_goal_is_met_by_the_mean_of_five_seeds(finals, verdict):
    text = page.readme([_result(seed, final) for seed, final in enumerate(finals)])
    line = next(line for line in text.splitlines() if line.startswith("| cartpole"))
    assert " ".join(line.split()).endswith(verdict)


def test_slopes_are_pooled_over_paths():
    some = [{"study": "garnet", "seed": i, "T": [10, 1000], "slopes": [-0.4, -0.6], **ORIGIN} for i in range(5)]
    text = page.readme(some)
    # Ten slopes of standard deviation .1 sqrt(10/9) = .105: 1.96 * .105 / sqrt(10) = .065
    assert "-0.500 ± 0.065" in text
    assert "Not measured." in text  # all else


def _medium(system, seed, score, **more):
    return {
        "study": page.MEDIUM,
        "task": "hopper",
        "kind": "medium",
        "system": system,
        "seed": seed,
        "return": score,
    } | (more | ORIGIN)


def test_systems_are_held_against_the_behaviour_s_own_mean():
    fitted = [_medium("offline", seed, 1000 + seed, hidden=[128, 128], updates=300_000) for seed in range(5)]
    text = page.readme([_medium("behaviour", 0, 1001.0), *fitted, _medium("cql", 0, 900.0, updates=300_000)])
    lines = [" ".join(line.split()) for line in text.splitlines() if line.startswith("| hopper")]
    assert lines == [
        "| hopper | medium | behaviour | – | 1001 | 1001 | – |",
        "| hopper | medium | cql | 300,000 | 900 | 900 | **below** so far (1 of 5 seeds) |",
        "| hopper | medium | offline 128x128 | 300,000 | 1002 | 1000 1001 1002 1003 1004 | above |",
    ]


@pytest.mark.parametrize(("seconds", "verdict"), [([20, 59.5], "met"), ([20, 61], "**missed**")])
def test_the_worst_epoch_counts(seconds, verdict):
    some = [{"study": "epoch", "seed": i, "processor_seconds": one, **ORIGIN} for i, one in enumerate(seconds)]
    line = next(line for line in page.readme(some).splitlines() if line.startswith("| one epoch"))
    assert line.rstrip(" |").endswith(verdict)


def test_the_committed_page_is_of_the_committed_rows():
    place = ROOT / "results/offline"
    assert (place / "README.md").read_text() == page.readme(rows.read(place / "rows.jsonl"))


def test_the_figure_has_a_panel_for_each_study_and_for_each_set_that_was_recorded():
    place = ROOT / "results/offline"
    drawn = [axes for axes in offline_figure(rows.read(place / "rows.jsonl")).axes if axes.axison]
    titles = [axes.get_title(loc="left") for axes in drawn]
    assert {"garnets", "hopper, medium-replay", "cartpole, one random path", "values told, pendulum"} <= set(titles)
    (medium,) = [axes for axes in drawn if axes.get_title(loc="left") == "hopper, medium"]
    assert {"offline", "behaviour", "clone"} <= {text.get_text() for text in medium.get_legend().get_texts()}
    assert len(offline_figure([_medium("behaviour", 0, 1.0)]).axes) == 6
    assert (place / "offline.png").is_file()
