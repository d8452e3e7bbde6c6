"""Errata about notation: what the code calls things, and which grids are really run."""

import inspect

from sbeed.agents.sbeed import equations
from sbeed.agents.sbeed.grids import PAPER_GRIDS
from sbeed.ops import prox, schedules


def test_E6_grids_are_the_printed_ones_without_their_slips():
    assert set(PAPER_GRIDS["learning_rate"]) == set([0.1, 0.01, 0.001, 0.001])  # as printed
    assert set(PAPER_GRIDS["eta"]) == set([0.004, 0.01, 0.04, 0.1, 0.04])  # as printed, 0,01 being 0.01
    for name, values in PAPER_GRIDS.items():
        assert list(values) == sorted(set(values)), name


def test_E7_one_meaning_per_name():
    def parameters(module):
        functions = [f for _, f in inspect.getmembers(module, inspect.isfunction) if f.__module__ == module.__name__]
        return {name for f in functions for name in inspect.signature(f).parameters}

    everywhere = parameters(equations) | parameters(prox) | parameters(schedules)
    assert not everywhere & {"zeta", "xi", "lambda_", "lmbda", "epsilon"}  # step sizes and traces have words
    assert "trace" in parameters(equations)
    assert "kl_radius" in parameters(prox)
    assert "eta" not in parameters(prox)  # NPG's eta; the learner's is the weight of the dual term
