import subprocess
import sys

import jax
import pytest

from sbeed.experiments import plots
from sbeed.experiments.figures import theory


def rows_of(panel, names, x=(1.0, 2.0, 4.0)):
    return [
        {"panel": panel, "series": name, "x": t, "y": 1 / t, "lo": 0.9 / t, "hi": 1.1 / t} for name in names for t in x
    ]


@pytest.fixture
def rows():
    etas = [f"eta={eta:g}" for eta in theory.ETAS]
    runs = ("Q-learning", "SBEED", "SBEED, plain steps")
    return [
        *rows_of("a", [*etas, *(f"{eta}, sampled" for eta in etas)]),
        *rows_of("b", ["bound", "MDP 1", "MDP 2"]),
        *rows_of("c", [f"{run}: {what}" for run in runs for what in ("weight norm", "Bellman error")]),
        *rows_of("d", ["mean", "MDP 1"]),
        *rows_of("d", ["slope"], x=(1.0,)),
    ]


def test_the_figure_is_a_function_of_rows_alone(rows, tmp_path):
    one, two = (plots.save(plots.theory_figure(rows), tmp_path / name) for name in ("one", "two"))
    assert [path.suffix for path in one] == [".png", ".svg"]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, two))


def test_rows_read_back_from_text_give_the_same_picture(rows, tmp_path):
    text = [{name: str(value) for name, value in row.items()} for row in rows]
    one, two = (plots.save(plots.theory_figure(r), tmp_path / name) for r, name in ((rows, "one"), (text, "two")))
    assert one[0].read_bytes() == two[0].read_bytes()


def test_plots_never_import_jax():
    code = "import sys, sbeed.experiments.plots; assert not {'jax', 'equinox', 'optax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_panel_c_has_its_rows():
    rows = list(theory.baird_rows(jax.random.key(0)))
    assert len(rows) == 3 * 2 * 301
    assert set(rows[0]) == set(theory.COLUMNS)


def test_write_saves_the_rows_beside_the_pictures(rows, tmp_path, monkeypatch):
    monkeypatch.setattr(theory, "theory_rows", lambda seed, progress: rows)
    paths = theory.write(tmp_path / "figures")
    assert sorted(path.name for path in paths) == ["theory.csv", "theory.png", "theory.svg"]
    assert len((tmp_path / "figures" / "theory.csv").read_text().splitlines()) == len(rows) + 1
