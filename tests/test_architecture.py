"""docs/architecture.md against the code: walks name what is there and are as short as it says, recipes work."""

import ast
import re
import sys
from pathlib import Path
from types import FunctionType

import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv

import sbeed
from sbeed.agents import configs, registry
from sbeed.agents.q_sbeed import equations as q_equations
from sbeed.agents.sbeed import equations
from sbeed.agents.shared.steps import stepped
from sbeed.data.replay import sample
from sbeed.envs import registry as environments
from sbeed.experiments.runner import full_config
from sbeed.experiments.spec import Run, describe, read_run, runs_of
from sbeed.storage.run_dir import RunDir
from sbeed.training import compiled_steps
from sbeed.training.run import RunSpec, make_trainer
from sbeed.training.trainer import Trainer
from tests.commands import run_command
from tests.tiny import TINY

SOURCES = Path(sbeed.__file__).parent
TEXT = (Path(__file__).parents[1] / "docs/architecture.md").read_text()
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


# ------------------------------------------------------------------------------------------------- walks


def _defined(path):
    """The names of a module's functions and methods."""
    tree = ast.parse((SOURCES / path).read_text())
    inside = {
        f"{c.name}.{f.name}"
        for c in ast.walk(tree)
        if isinstance(c, ast.ClassDef)
        for f in c.body
        if hasattr(f, "name")
    }
    return inside | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_the_walks_name_functions_that_are_there():
    sections = TEXT.split("## A transition's life")[1].split("## How to add")[0]
    steps = re.findall(r"^\| \d+ \| (.*?) \|", sections, re.MULTILINE)
    assert len(steps) == 16
    for step in steps:
        path = None
        for word in re.findall(r"`([^`]+)`", step):
            if word.endswith(".py"):
                path = word
            else:
                assert word in _defined(path), f"{path} has no {word}"


class Stack:
    """The functions of ours under which landmarks were first met: {landmark: [(file, function)]}"""

    def __init__(self, monkeypatch):
        self.met, self.armed, self._patch = {}, {"always"}, monkeypatch

    def watch(self, owner, name, landmark, while_="always"):
        """Note the stack when that function is called; where modules have imported it, too."""
        function = getattr(owner, name)

        def noting(*args, **kwargs):
            if while_ in self.armed:
                self.note(landmark, function)
            return function(*args, **kwargs)

        modules = [module for key, module in sys.modules.items() if key.startswith("sbeed")]
        for place in [owner, *(module for module in modules if getattr(module, name, None) is function)]:
            self._patch.setattr(place, name, noting)

    def note(self, landmark, function=None):
        if landmark not in self.met:
            found = [] if function is None else [function.__code__]
            frame = sys._getframe(1)
            while frame:
                found.append(frame.f_code)
                frame = frame.f_back
            ours = [code for code in found[::-1] if SOURCES in Path(code.co_filename).parents]
            named = [(str(Path(c.co_filename).relative_to(SOURCES)), c.co_firstlineno, c.co_name) for c in ours]
            self.met[landmark] = [name for name in named if name[2] not in COMPREHENSIONS]

    def walk(self, *landmarks, below=None):
        """(functions, files) on the way to these landmarks, without those that `below` was met under."""
        way = {name for landmark in landmarks for name in self.met[landmark]} - set(self.met.get(below, []))
        return len(way), len({file for file, *_ in way})


@pytest.fixture
def stack(capsys, monkeypatch, tmp_path):
    """The stacks of `sbeed train` until it has learned and been evaluated."""
    stack = Stack(monkeypatch)
    advance, evaluate, learn = Trainer.advance, Trainer.evaluate, compiled_steps.learn

    def first_learning(self, most):
        stack.note("first iteration", advance)
        if self.step + 8 < 16 or self.iteration:
            return advance(self, most)
        stack.note("iteration")
        stack.armed.add("learning")
        try:
            return advance(self, most)
        finally:
            stack.armed.remove("learning")

    def evaluating(self, episodes):
        stack.armed.add("evaluating")
        try:
            return evaluate(self, episodes)
        finally:
            stack.armed.remove("evaluating")

    def updating(*args, **kwargs):  # the preparation before it samples too
        stack.armed.add("updating")
        try:
            return learn(*args, **kwargs)
        finally:
            stack.armed.remove("updating")

    stack.watch(PendulumEnv, "step", "env.step", while_="learning")
    stack.watch(sys.modules[sample.__module__], "sample", "sample", while_="updating")
    for module in (equations, q_equations):
        for name, function in list(vars(module).items()):
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                stack.watch(module, name, "equation", while_="updating")
    stack.watch(sys.modules[stepped.__module__], "stepped", "optimiser", while_="updating")
    stack.watch(PendulumEnv, "step", "evaluation", while_="evaluating")
    stack.watch(RunDir, "append", "row")
    stack.watch(RunDir, "__enter__", "directory")
    stack.watch(PendulumEnv, "__init__", "environment")
    stack.watch(Trainer, "__init__", "trainer")
    monkeypatch.setattr(Trainer, "advance", first_learning)
    monkeypatch.setattr(Trainer, "evaluate", evaluating)
    monkeypatch.setattr(compiled_steps, "learn", updating)
    sizes = [
        str(word) for name, value in {**TINY, "hidden": 5}.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    code, _, err = run_command(
        capsys, "train", "--env", "Pendulum-v1", "--steps", 24, *sizes, "--out", tmp_path / "run"
    )
    assert (code, err) == (0, "")
    return stack


def test_the_walks_are_as_short_as_it_says(stack):
    found = {
        "a transition to the parameters": stack.walk("env.step", "sample", "equation", "optimiser", below="iteration"),
        "its row": stack.walk("evaluation", "row", below="iteration"),
        "a command to the loop": stack.walk("environment", "directory", "trainer", "first iteration"),
    }
    for walk, (functions, files) in found.items():
        told = re.search(rf"^\| {walk} \|.*\| (\d+) functions in (\d+) files", TEXT, re.MULTILINE)
        assert told, walk
        assert functions <= int(told[1]), (walk, functions)
        assert files <= int(told[2]), (walk, files)


# ------------------------------------------------------------------------------------------------- recipes


def _recipe(title):
    """The names that the lines under a heading define."""
    section = TEXT.split(f"### {title}\n")[1].split("\n#")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(lines) <= 10, title
    found = {}
    exec(code, found)
    return found


def test_an_agent_is_added_in_ten_lines(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(registry, "AGENTS", dict(registry.AGENTS))
    monkeypatch.setattr(configs, "FORMS", dict(configs.FORMS))
    name = _recipe("An agent")["AGENT"].name
    trainer = make_trainer(RunSpec("jax:pendulum", agent=name, steps=24, fields=TINY))
    while trainer.step < 24:
        trainer.advance(24 - trainer.step)
    assert trainer.iteration == 4  # two rounds of updates, each of which it makes twice
    code, _, err = run_command(
        capsys, "train", "--agent", name, "--env", "jax:pendulum", "--steps", 0, "--out", tmp_path
    )
    assert (code, err) == (2, "sbeed: --steps: must lie in [1, inf), got 0\n")


def test_an_environment_is_added_in_ten_lines(monkeypatch):
    monkeypatch.setattr(environments, "JAX_ENVS", dict(environments.JAX_ENVS))
    name = _recipe("An environment")["Corridor"]().spec.name
    trainer = make_trainer(RunSpec(name, fields=TINY))
    trainer.advance(8)
    scores = trainer.evaluate(2)
    assert scores.lengths.tolist() == [[20, 20]]


def test_a_figure_is_added_in_ten_lines():
    figure = _recipe("A figure")["FIGURE"]
    runs = [run for _, run in runs_of(figure, 2)]
    assert len(runs) == 2 * len(figure.panels[0].curves)
    for run in runs:
        assert full_config(run.spec)["k"] == run.spec.fields["k"]
        assert read_run(describe(run)) == Run(run.spec, run.seed)
