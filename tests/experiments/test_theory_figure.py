import csv
import subprocess
import sys

import numpy as np
import pytest

from sbeed import cli
from sbeed.experiments.figures import theory
from sbeed.reporting import plots
from sbeed.reporting.theory_plots import theory_figure


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


def test_the_figure_is_a_function_of_rows_alone_also_read_back_from_text(rows, tmp_path):
    text = [{name: str(value) for name, value in row.items()} for row in rows]
    one, two = (plots.save(theory_figure(r), tmp_path / name) for r, name in ((rows, "one"), (text, "two")))
    assert [path.suffix for path in one] == [".png", ".svg"]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, two))


def test_plots_never_import_jax():
    code = "import sys, sbeed.reporting.theory_plots; assert not {'jax', 'equinox', 'optax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """`sbeed figure theory` with shorter curves than the real one: its files, and its rows by panel and series."""
    out = tmp_path_factory.mktemp("figure")
    small = {
        "NOISES": (0.0, 0.1, 0.3, 0.6, 1.0),
        "SAMPLED_NOISES": (0.0, 0.4),
        "PATHS": 4,
        "STEPS": 5_000,
        "LENGTHS": (3_000, 30_000),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in small.items():
            patch.setattr(theory, name, value)
        with pytest.raises(SystemExit) as stop:
            cli.main(["figure", "theory", "--out", str(out / "figures")])
    assert stop.value.code == 0
    panels = {}
    with (out / "figures" / "theory.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            series = panels.setdefault(row["panel"], {}).setdefault(
                row["series"], {c: [] for c in ("x", "y", "lo", "hi")}
            )
            for column, values in series.items():
                values.append(float(row[column]))
    return out / "figures", {
        panel: {name: {c: np.array(v) for c, v in series.items()} for name, series in named.items()}
        for panel, named in panels.items()
    }


def test_the_command_writes_three_files(drawn):
    out, panels = drawn
    assert sorted(path.name for path in out.iterdir()) == ["theory.csv", "theory.png", "theory.svg"]
    assert (out / "theory.png").read_bytes().startswith(b"\x89PNG")
    assert "</svg>" in (out / "theory.svg").read_text()
    assert sorted(panels) == list("abcd")


def test_panel_a_noise_biases_all_but_eta_1(drawn):
    a = drawn[1]["a"]
    np.testing.assert_allclose(a["eta=1"]["y"], 0.0, atol=1e-10)
    for more, less in ((0.0, 0.25), (0.25, 0.5), (0.5, 1.0)):
        noisy = a[f"eta={more:g}"]["x"] > 0
        assert np.all(a[f"eta={more:g}"]["y"][noisy] > a[f"eta={less:g}"]["y"][noisy] + 0.01)
        np.testing.assert_allclose(a[f"eta={more:g}"]["y"][~noisy], 0.0, atol=1e-10)
    # Sampled: where there is noise PCL's interval lies far above SBEED's.
    assert a["eta=0, sampled"]["lo"][1] > 5 * a["eta=1, sampled"]["hi"][1]


def test_panel_b_stays_under_the_bound(drawn):
    b = drawn[1]["b"]
    bound = b.pop("bound")
    assert len(b) == 12
    for series in b.values():
        np.testing.assert_array_equal(series["x"], bound["x"])
        assert np.all(series["y"] < bound["y"])
        assert np.all(series["y"][-1] > 0.9 * bound["y"][-1])  # and reaches it where entropy is all that counts


def test_panel_c_diverges_and_converges(drawn):
    error = {
        name: drawn[1]["c"][f"{name}: Bellman error"]["y"] for name in ("Q-learning", "SBEED", "SBEED, plain steps")
    }
    assert len({y[0] for y in error.values()}) == 1  # one error, one start
    assert error["Q-learning"][-1] > 1e6 * error["Q-learning"][0]
    assert error["SBEED"][-1] < 1e-18
    assert np.all(np.diff(error["SBEED, plain steps"]) < 0)
    assert error["SBEED, plain steps"][-1] > 1e-4  # slow, as its label says
    weights = drawn[1]["c"]["Q-learning: weight norm"]["y"]
    assert weights[-1] > 1e4 * weights[0]


def test_panel_d_falls_as_the_square_root(drawn):
    d = drawn[1]["d"]
    assert d["slope"]["y"][0] == pytest.approx(-0.5, abs=0.1)
    ends = np.log(d["mean"]["y"][[0, -1]])
    assert (ends[1] - ends[0]) / np.log(10) == pytest.approx(-0.5, abs=0.1)  # T grows tenfold: the curve, not its label
