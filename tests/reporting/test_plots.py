"""Learning curves from rows."""

from sbeed.reporting import plots
from tests.reporting.folders import rows_of_seeds


def test_a_panel_for_each_environment_and_a_line_for_each_run(tmp_path):
    runs = {
        "a": rows_of_seeds(),
        "b": rows_of_seeds(seeds=(0,)),
        "c": rows_of_seeds(env="Hopper-v5") + rows_of_seeds(env="Swimmer-v5"),
        "d": rows_of_seeds(env="Ant-v5"),
    }
    figure = plots.learning_curves(runs)
    lines = {
        axes.get_title(loc="left"): [line.get_label() for line in axes.lines] for axes in figure.axes if axes.axison
    }
    assert lines == {"Pendulum-v1": ["a", "b"], "Hopper-v5": ["c"], "Swimmer-v5": ["c"], "Ant-v5": ["d"]}
    assert all(path.stat().st_size > 5000 for path in plots.save(figure, tmp_path / "curves"))
