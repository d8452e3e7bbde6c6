"""Learning curves from rows."""

from sbeed.reporting import plots


def _rows(env="Pendulum-v1", seeds=(0, 1, 2)):
    return [
        {"env": env, "seed": seed, "step": step, "return": float(seed + step)} for step in (20, 10) for seed in seeds
    ]


def test_a_panel_for_each_environment_and_a_line_for_each_run(tmp_path):
    runs = {"a": _rows(), "b": _rows(seeds=(0,)), "c": _rows("Hopper-v5") + _rows("Swimmer-v5"), "d": _rows("Ant-v5")}
    figure = plots.learning_curves(runs)
    lines = {
        axes.get_title(loc="left"): [line.get_label() for line in axes.lines] for axes in figure.axes if axes.axison
    }
    assert lines == {"Pendulum-v1": ["a", "b"], "Hopper-v5": ["c"], "Swimmer-v5": ["c"], "Ant-v5": ["d"]}
    assert all(path.stat().st_size > 5000 for path in plots.save(figure, tmp_path / "curves"))
