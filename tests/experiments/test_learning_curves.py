"""Learning curves from rows."""

import numpy as np

from sbeed.experiments import plots


def _rows(env="Pendulum-v1", seeds=(0, 1, 2)):
    return [
        {"env": env, "seed": seed, "step": step, "return": float(seed + step)} for step in (20, 10) for seed in seeds
    ]


def test_the_interval_over_seeds():
    series = plots.over_seeds(_rows())
    np.testing.assert_array_equal(series.x, [10, 20])
    np.testing.assert_allclose(series.y, [11, 21])  # returns 10, 11, 12 and 20, 21, 22
    # s = 1, n = 3, t(2) at 97.5% = 4.303 from any table: 4.303 / sqrt(3) = 2.484
    np.testing.assert_allclose(series.hi - series.y, 2.484, atol=1e-3)
    np.testing.assert_allclose(series.y - series.lo, 2.484, atol=1e-3)


def test_a_return_that_was_not_finite_is_a_gap():
    series = plots.over_seeds([{"step": step, "return": value} for step, value in ((10, None), (20, 1.0))])
    np.testing.assert_array_equal(series.y, [np.nan, 1])


def test_one_seed_has_no_interval():
    series = plots.over_seeds(_rows(seeds=(4,)))
    np.testing.assert_array_equal(series.lo, series.y)
    np.testing.assert_array_equal(series.hi, series.y)


def test_a_panel_for_each_environment_and_a_line_for_each_run(tmp_path):
    runs = {"a": _rows(), "b": _rows(seeds=(0,)), "c": _rows("Hopper-v5") + _rows("Swimmer-v5"), "d": _rows("Ant-v5")}
    figure = plots.learning_curves(runs)
    lines = {
        axes.get_title(loc="left"): [line.get_label() for line in axes.lines] for axes in figure.axes if axes.axison
    }
    assert lines == {"Pendulum-v1": ["a", "b"], "Hopper-v5": ["c"], "Swimmer-v5": ["c"], "Ant-v5": ["d"]}
    assert all(path.stat().st_size > 5000 for path in plots.save(figure, tmp_path / "curves"))


def test_a_step_that_only_some_seeds_reached_has_no_mean():
    rows = [{"seed": seed, "step": step, "return": 1.0} for seed in (0, 1) for step in (10, 20 + seed)]
    np.testing.assert_array_equal(plots.over_seeds(rows).x, [10])
