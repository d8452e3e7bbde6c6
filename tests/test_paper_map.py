"""docs/paper_map.md against the paper and against the code, both ways."""

import importlib
import re
from pathlib import Path

import pytest

from sbeed.theory.claims import STATEMENTS

ROOT = Path(__file__).parent.parent

# Passages without a number that a statement is about.
PASSAGES = "appendix:analysis_details appendix:multi_step sec:algorithm sec:analysis sec:main".split()

# The labels of the paper's propositions, theorems, lemmas, corollary, assumptions, algorithms and numbered equations.
PAPER = """
    thm:contraction lemma:smooth_bias thm:smoothed_bellman_opt_pi thm:gradient_estimator thm:convergence_opt
    thm:statistical_error thm:error_decomposition thm:variance_cancellation lemma:decomposed_bias
    lemma:loss_solution_connection cor:dual_approx_error lemma:error_decomposition lemma:beta_tail lemma:cover_pseudo
    asmp:mdp_reg asmp:sample_measure alg:sbeed alg:sbeed_dual_nn
    eq:bellman_opt eq:opt_policy eq:bellman_opt_dual eq:mean_square_bellman_opt eq:smoothed_bellman_opt_dual
    eq:smoothed_bellman_opt_dual2 eq:smoothed_bellman_opt_pi eq:simplified_smooth_bellman_loss
    eq:dual_simplified_smooth_bellman eq:variance_reduction eq:one_step_trade_off eq:multi_step_smooth_bellman
    eq:variance_reduction_kstep eq:trace_smooth_bellman eq:dual_eligible_trace eq:decompose_error eq:first_term
    eq:second_term eq:third_term eq:prob_inter
""".split()


def _rows():
    """label -> (functions, tests), from the map's table."""
    rows = {}
    for line in (ROOT / "docs/paper_map.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 6 and cells[1].startswith("`"):
            rows[cells[1].strip("`")] = tuple(re.findall(r"`([^`]+)`", cell) for cell in cells[3:5])
    return rows


ROWS = _rows()


def test_every_label_of_the_paper_is_in_the_map_and_no_other():
    assert sorted(ROWS) == sorted(PAPER + PASSAGES)


@pytest.mark.parametrize("label", PAPER + PASSAGES)
def test_what_the_map_names_exists(label):
    functions, tests = ROWS[label]
    if not functions:
        assert "cited" in next(line for line in (ROOT / "docs/paper_map.md").read_text().splitlines() if label in line)
        return
    for function in functions:
        module, _, name = f"sbeed.{function}".rpartition(".")
        assert hasattr(importlib.import_module(module), name), function
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        function, _, parameter = name.rstrip("]").partition("[")
        assert f"def {function}(" in (ROOT / "tests" / path).read_text(), test
        assert not parameter or parameter in {statement.name for statement in STATEMENTS}, test


def test_every_statement_is_in_the_map():
    for statement in STATEMENTS:
        for label in statement.labels:
            test = f"theory/test_claims.py::test_statement[{statement.name}]"
            assert test in ROWS[label][1], f"{statement.name} checks {label}, which the map does not say"


LABEL = re.compile(r"\b(?:thm|lemma|cor|asmp|alg|eq):\w+")


def test_every_label_that_the_code_cites_is_in_the_paper():
    for path in (ROOT / "src").rglob("*.py"):
        for label in LABEL.findall(path.read_text()):
            assert label in PAPER, f"{path.name} cites {label}"


@pytest.mark.parametrize(
    "module", ["agents.sbeed.equations", "agents.q_sbeed.equations", "theory.operators", "theory.exact"]
)
def test_a_function_that_cites_an_equation_stands_in_its_row(module):
    for name, function in vars(importlib.import_module(f"sbeed.{module}")).items():
        cited = re.findall(r"\[paper: ([^\]]*)\]", getattr(function, "__doc__", None) or "")
        for label in LABEL.findall(" ".join(cited)):
            assert f"{module}.{name}" in ROWS[label][0], f"{name} cites {label}, whose row does not name it"
