"""Each of what `make bench-reliability` does at the edges of a run."""

import ast
from pathlib import Path

import pytest
from benchmarks.reliability import edges


@pytest.mark.filterwarnings("ignore:.*observation space")
@pytest.mark.parametrize("number", range(edges.COUNT), ids=list(edges.CASES))
def test_it_holds(number):
    for trial in edges.trials([number]):
        assert not trial.why, trial


def test_commands_print_by_one_function():
    """So that nothing from a file reaches the terminal as it is."""
    for path in Path("src/sbeed/cli").glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        prints = [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert len(prints) == (2 if path.name == "console.py" else 0), (path, prints)
