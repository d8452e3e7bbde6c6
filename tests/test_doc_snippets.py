"""Every snippet of Python in the README and the docs runs, in few steps."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sbeed.envs.task import read_task
from sbeed.storage.datasets import save_dataset
from sbeed.training.run import RunSpec, make_trainer
from tests.tiny import TINY

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FEWER = {"1_000_000": "100", "20_000": "20", "10_000": "100", "Hopper-v5": "Pendulum-v1"}


def _nothing() -> dict:
    return {}


def _dataset() -> dict:
    import sbeed

    Path("data").mkdir()
    save_dataset(Path("data/pendulum"), sbeed.record_dataset("Pendulum-v1", [None], 400))
    return {}


def _trainer() -> dict:
    spec = RunSpec("Pendulum-v1", steps=16, fields=TINY)
    make = lambda spec: make_trainer(spec, read_task(spec.env))
    trainer = make(spec)
    trainer.advance(8)
    Path("run").mkdir()
    return {"run": Path("run"), "spec": spec, "trainer": trainer, "make_trainer": make}


def _figure() -> dict:
    shutil.copytree(ROOT / "results" / "ablation", "results/ablation")
    return {}


SETUPS: dict[tuple[str, int], Callable[[], dict]] = {
    ("README.md", 0): _nothing,
    ("callbacks.md", 0): _nothing,
    ("callbacks.md", 1): _nothing,
    ("checkpoints.md", 0): _nothing,
    ("checkpoints.md", 1): _trainer,
    ("migration.md", 0): _nothing,
    ("offline.md", 0): _dataset,
    ("report.md", 0): _figure,
}


def _snippets(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


FOUND = {(page.name, i): text for page in PAGES for i, text in enumerate(_snippets(page))}


def test_every_snippet_is_run():
    elsewhere = {(page, i) for page, i in FOUND if page == "architecture.md"}  # tests/test_architecture.py runs them
    assert set(FOUND) - elsewhere == set(SETUPS)


@pytest.mark.parametrize("where", SETUPS, ids=lambda where: f"{where[0]}-{where[1]}")
def test_snippet(where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = FOUND[where]
    for long, short in FEWER.items():
        text = text.replace(long, short)
    exec(text, SETUPS[where]())
