"""The page of results/offline is arithmetic on rows; the committed one is that of the committed rows."""

from pathlib import Path

import pytest
from benchmarks import rows
from benchmarks.offline import page

ROOT = Path(__file__).parent.parent
ORIGIN = {"commit": "abc1234", "machine": "a machine, 2 cores"}


def _run(seed, final, study="cartpole"):
    told = {"transitions": 50_000, "data_return": 22.0, "effective": 900.0, "preset": "offline"}
    return {"study": study, "seed": seed, "return": final, **told, **ORIGIN}


@pytest.mark.parametrize(
    ("finals", "verdict"),
    [([450] * 5, "| met |"), ([500, 500, 500, 500, 249], "| **missed** |"), ([500], "| met so far (1 of 5 seeds) |")],
)
def test_a_goal_is_met_by_the_mean_of_five_seeds(finals, verdict):
    text = page.readme([_run(seed, final) for seed, final in enumerate(finals)])
    line = next(line for line in text.splitlines() if line.startswith("| cartpole"))
    assert " ".join(line.split()).endswith(verdict)


def test_slopes_are_pooled_over_paths():
    some = [{"study": "garnet", "seed": i, "T": [10, 1000], "slopes": [-0.4, -0.6], **ORIGIN} for i in range(5)]
    text = page.readme(some)
    # Ten slopes of standard deviation .1 sqrt(10/9) = .105: 1.96 * .105 / sqrt(10) = .065
    assert "-0.500 ± 0.065" in text
    assert "Not measured." in text  # all else


def test_the_committed_page_is_of_the_committed_rows():
    place = ROOT / "results/offline"
    assert (place / "README.md").read_text() == page.readme(rows.read(place / "rows.jsonl"))
