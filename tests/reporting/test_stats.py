"""Estimates from a few runs: by hand, by law, and as rliable has them."""

import warnings

import numpy as np
import pytest

from sbeed.reporting import stats
from tests.reporting.folders import rows_of_seeds


@pytest.fixture(scope="module")
def rliable():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from rliable import library, metrics
    return library, metrics


@pytest.fixture(scope="module")
def scores():
    """Two algorithms, 8 and 6 runs on 3 tasks, with ties."""
    rng = np.random.default_rng(3)
    return rng.normal(0.5, 0.3, (8, 3)).round(1), rng.normal(0.4, 0.3, (6, 3)).round(1)


def _tasks(matrix):
    return list(matrix.T)


# ------------------------------------------------------------------------------------------------- curves


def test_the_interval_over_seeds():
    series = stats.over_seeds(rows_of_seeds())
    np.testing.assert_array_equal(series.x, [10, 20])
    np.testing.assert_allclose(series.y, [11, 21])  # returns 10, 11, 12 and 20, 21, 22
    # s = 1, n = 3, t(2) at 97.5% = 4.303 from any table: 4.303 / sqrt(3) = 2.484
    np.testing.assert_allclose(series.hi - series.y, 2.484, atol=1e-3)
    np.testing.assert_allclose(series.y - series.lo, 2.484, atol=1e-3)


def test_the_papers_interval():
    # Five runs, s = sqrt(2.5), t(4) at 75% = 0.7407: 0.7407 sqrt(2.5 / 5) = 0.5238
    found = stats.mean(np.arange(5.0), stats.PAPER_LEVEL)
    np.testing.assert_allclose(found, (2, 2 - 0.5238, 2 + 0.5238), atol=1e-4)


def test_a_return_that_was_not_finite_is_a_gap():
    series = stats.over_seeds([{"step": step, "return": value} for step, value in ((10, None), (20, 1.0))])
    np.testing.assert_array_equal(series.y, [np.nan, 1])


def test_one_seed_has_no_interval():
    series = stats.over_seeds(rows_of_seeds(seeds=(4,)))
    np.testing.assert_array_equal(series.lo, series.y)
    np.testing.assert_array_equal(series.hi, series.y)


def test_of_two_rows_of_one_step_the_final_one_counts():
    rows = [{"step": 10, "return": 2.0, "final": True}, {"step": 10, "return": 1.0, "final": False}]
    np.testing.assert_array_equal(stats.curve(rows), [[10], [2]])


def test_between_its_evaluations_a_seed_is_on_a_line_and_after_them_nowhere():
    x, y = stats.aligned([(np.array([0, 10, 30]), np.array([0.0, 10, 30])), (np.array([5, 20]), np.array([1.0, 4]))])
    np.testing.assert_array_equal(x, [5, 10, 20])
    np.testing.assert_allclose(y, [[5, 10, 20], [1, 2, 4]])


def test_curves_that_nowhere_meet_have_no_mean():
    far = [(np.array([0, 1]), np.zeros(2)), (np.array([5, 6]), np.zeros(2))]
    assert len(stats.mean_curve(far).x) == 0
    assert len(stats.iqm_curve(far).x) == 0


def test_a_long_curve_keeps_its_ends():
    x, y = stats.aligned([(np.arange(10_000), np.arange(10_000.0))])
    assert len(x) == stats.MOST_POINTS
    assert (x[0], x[-1]) == (0, 9_999)
    np.testing.assert_array_equal(y[0], x)


# ------------------------------------------------------------------------------------------------- estimates


def test_the_interquartile_mean_by_hand():
    # Of five the lowest and the highest go: (1 + 2 + 6) / 3. Of eight two and two.
    assert stats.iqm(np.array([[100.0, 1, 2, 6, -50]])) == pytest.approx(3)
    assert stats.iqm(np.array([[1.0, 2, 3, 4, 5, 6, 7, 80]])) == pytest.approx(4.5)
    assert np.isnan(stats.iqm(np.array([[1.0, 2, 3, np.nan]])))


def test_the_bootstrap_finds_the_spread_of_a_mean():
    values = np.random.default_rng(0).normal(size=400)
    found = stats.bootstrap(lambda tasks: tasks[0].mean(1), [values])
    # Of 400 values a mean has the deviation s / 20; 1.96 of them on either side.
    assert found.hi - found.lo == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.06)
    assert found.value == pytest.approx(values.mean())


def test_many_draws_in_parts_are_the_same_bootstrap(monkeypatch):
    values = np.random.default_rng(0).normal(size=20)
    whole = stats.overall_iqm([values])
    monkeypatch.setattr(stats, "_AT_ONCE", 700)  # 35 draws at a time
    np.testing.assert_allclose(stats.overall_iqm([values]), whole)


def test_runs_are_drawn_within_their_task():
    # Each task's runs are all alike: whatever is drawn, the result is the same.
    found = stats.bootstrap(lambda tasks: np.concatenate(tasks, 1).mean(1), [np.full(5, 1.0), np.full(3, 9.0)])
    np.testing.assert_allclose(found, (5 + 27) / 8)


def test_improvement_by_hand():
    # Task 1: of the pairs (1, 0), (1, 1), (3, 0), (3, 1) three are won and one tied, 3.5 / 4. Task 2: lost.
    ours, theirs = [np.array([1.0, 3]), np.array([0.0])], [np.array([0.0, 1]), np.array([5.0])]
    assert stats.improvement(ours, theirs).value == pytest.approx(3.5 / 8)


def test_what_one_wins_the_other_loses(scores):
    ours, theirs = map(_tasks, scores)
    there, back = stats.improvement(ours, theirs), stats.improvement(theirs, ours)
    assert there.value + back.value == pytest.approx(1)
    assert stats.improvement(ours, ours).value == pytest.approx(0.5)


def test_profiles_fall_from_one_to_zero(scores):
    found = stats.profile(_tasks(scores[0]), np.array([-9.0, 0.2, 0.5, 0.8, 9.0]))
    assert (found.y[0], found.y[-1]) == (1, 0)
    assert np.all(np.diff(found.y) <= 0)
    assert np.all((found.lo <= found.y) & (found.y <= found.hi))


# ------------------------------------------------------------------------------------------------- rliable

# Two bootstraps of the same data differ by chance. Of 2,000 draws the end of a 95% interval is found to about 3% of
# its length.
SAME = 0.1


def _alike(ours, value, interval):
    np.testing.assert_allclose(ours.value, np.squeeze(value), atol=1e-12)
    length = interval[1] - interval[0]
    assert np.all(np.abs(np.stack([ours.lo, ours.hi]) - interval.reshape(2, *np.shape(ours.lo))) <= SAME * length)


def test_the_interquartile_mean_is_rliables(rliable, scores):
    library, metrics = rliable
    np.random.seed(0)  # its bootstrap draws from the global one
    values, intervals = library.get_interval_estimates(
        {"a": scores[0]}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=2_000
    )
    _alike(stats.overall_iqm(_tasks(scores[0])), values["a"], intervals["a"])


def test_the_chance_of_improvement_is_rliables(rliable, scores):
    library, metrics = rliable
    np.random.seed(0)
    values, intervals = library.get_interval_estimates(
        {"a": list(scores)}, lambda x, y: np.array([metrics.probability_of_improvement(x, y)]), reps=1_000
    )
    _alike(stats.improvement(*map(_tasks, scores)), values["a"], intervals["a"])


def test_profiles_are_rliables(rliable, scores):
    library, _ = rliable
    thresholds = np.array([0.15, 0.45, 0.75])
    np.random.seed(0)
    values, intervals = library.create_performance_profile({"a": scores[0]}, thresholds, reps=2_000)
    found = stats.profile(_tasks(scores[0]), thresholds)
    np.testing.assert_allclose(found.y, values["a"])
    # Shares move in steps of a run.
    np.testing.assert_allclose(np.stack([found.lo, found.hi]), intervals["a"], atol=1 / scores[0].size + 1e-9)
