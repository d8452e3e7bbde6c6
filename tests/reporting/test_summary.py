"""The tables of docs/findings.md are those of the committed rows."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from sbeed.reporting import stats, summary
from sbeed.reporting.figure_folder import read_figure
from sbeed.reporting.figure_results import PanelResults

ROOT = Path(__file__).parents[2]
OURS = {"off_policy": ("SBEED", "SBEED (paper)"), "on_policy": ("SBEED",)}
PAPERS = ("TRPO", "Dual-AC", "DDPG")  # that the paper compares SBEED with


def final_lines(panels: Iterable[PanelResults]) -> Iterator[str]:
    """Of each label, its mean in each panel ± half the 95% interval."""
    finals = [summary.finals(panel) for panel in panels]
    for label in dict.fromkeys(label for found in finals for label in found):
        means = [found[label].mean for found in finals]
        yield _line(label, [f"{mean.value:.0f} ± {mean.hi - mean.value:.0f}" for mean in means])


def difference_lines(panels: Iterable[PanelResults], ours: Iterable[str]) -> Iterator[str]:
    """Ours less another's, seed by seed, with the 95% interval of the mean."""
    by_seed = [{label: final.by_seed for label, final in summary.finals(panel).items()} for panel in panels]
    for mine in ours:
        for other in PAPERS:
            if other in by_seed[0]:
                means = [stats.mean(_differences(found[mine], found[other])) for found in by_seed]
                cells = [f"{mean.value:.0f} [{mean.lo:.0f}, {mean.hi:.0f}]" for mean in means]
                yield _line(f"{mine} less {other}", cells)


def ablation_lines(panel: PanelResults) -> Iterator[str]:
    for label, final in summary.finals(panel).items():
        seeds = " ".join(f"{value:.0f}" for value in final.by_seed.values())
        yield _line(label, [f"{final.mean.value:.0f} ± {final.mean.hi - final.mean.value:.0f}", seeds])


def _differences(mine: Mapping[int, float], other: Mapping[int, float]) -> np.ndarray:
    return np.array([mine[seed] - other[seed] for seed in mine])


def _line(first: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def lines_of(name: str) -> list[str]:
    panels = read_figure(ROOT / "results" / name).panels
    if name == "ablation":
        return [line for panel in panels for line in ablation_lines(panel)]
    return [*final_lines(panels), *difference_lines(panels, OURS[name])]


@pytest.mark.parametrize("name", ["ablation", "off_policy", "on_policy"])
def test_the_tables_are_those_of_the_rows(name):
    page = (ROOT / "docs" / "findings.md").read_text().splitlines()
    assert [line for line in lines_of(name) if line not in page] == []
