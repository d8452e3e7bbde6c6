"""Statistics of runs: arrays in, arrays out. Estimates from a few seeds come with their intervals."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

MOST_POINTS = 500  # of a curve: more than a picture can show
PAPER_LEVEL, LEVEL = 0.5, 0.95
DRAWS = 2_000  # of the bootstrap
_AT_ONCE = 2**24  # numbers


class Series(NamedTuple):
    x: np.ndarray
    y: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


class Estimate(NamedTuple):
    value: np.ndarray
    lo: np.ndarray
    hi: np.ndarray


Points = tuple[np.ndarray, np.ndarray]  # x, increasing, and y
Tasks = Sequence[np.ndarray]  # of each task the scores of its runs   [N] or [N, ...]


# ------------------------------------------------------------------------------------------------- curves


def aligned(curves: Sequence[Points]) -> Points:
    """Curves at the same x: every x of any of them that all of them cover, on the lines between their points.

    It stops where one curve ends: a mean over fewer seeds would estimate something else.   -> [X], [N, X]
    """
    x = np.unique(np.concatenate([x for x, _ in curves]))
    x = x[(x >= max(x[0] for x, _ in curves)) & (x <= min(x[-1] for x, _ in curves))]
    if len(x) > MOST_POINTS:
        x = x[np.linspace(0, len(x) - 1, MOST_POINTS).round().astype(int)]
    return x, np.stack([np.interp(x, *curve) for curve in curves])


def over_seeds(rows: Sequence[Mapping[str, Any]], level: float = LEVEL) -> Series:
    """Mean return at each step and the interval of that mean.   rows: seed, step, return, final"""
    seeds = dict.fromkeys(row.get("seed") for row in rows)
    return mean_curve([curve([row for row in rows if row.get("seed") == seed]) for seed in seeds], level)


def curve(rows: Sequence[Mapping[str, Any]]) -> Points:
    """Returns over steps of one seed; one that was not finite, which is null, is NaN.

    A run that was stopped where it had just been evaluated has two rows of that step: the final one counts.
    """
    at = {row["step"]: row["return"] for row in sorted(rows, key=lambda row: bool(row.get("final")))}
    return np.array(sorted(at)), np.array([at[step] for step in sorted(at)], float)


def mean_curve(curves: Sequence[Points], level: float = LEVEL) -> Series:
    x, values = aligned(curves)
    return Series(x, *mean(values, level))


def iqm_curve(curves: Sequence[Points], level: float = LEVEL) -> Series:
    """Interquartile mean over whole runs, resampled with all their points."""
    x, values = aligned(curves)
    return Series(x, *bootstrap(lambda tasks: iqm(tasks[0]), [values], level=level))


# ------------------------------------------------------------------------------------------------- estimates


def mean(values: np.ndarray, level: float = LEVEL) -> Estimate:
    """y +- t s / sqrt(n) over the first axis: Student's t with n - 1 degrees, s with n - 1. Nothing around one value.

    The paper has a "50% confidence interval" over five runs and does not say which: this one with level .5.
    """
    n, middle = len(values), values.mean(0)
    t = stdtrit(n - 1, (1 + level) / 2) if n > 1 else 0.0
    half = t * values.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros_like(middle)
    return Estimate(middle, middle - half, middle + half)


def iqm(values: np.ndarray, axis: int = 1) -> np.ndarray:
    """The interquartile mean: without the lowest and the highest quarter of the values, rounded down.   [D, N, ...]"""
    n = values.shape[axis]
    ordered = np.sort(values, axis)  # a NaN comes last, and must not be cut off for that
    middle = ordered.take(range(n // 4, n - n // 4), axis).mean(axis)
    return np.where(np.isnan(values).any(axis), np.nan, middle)


def bootstrap(
    statistic: Callable[..., np.ndarray], *groups: Tasks, level: float = LEVEL, draws: int = DRAWS, seed: int = 0
) -> Estimate:
    """A statistic and its percentile interval, runs drawn anew with replacement within each task and group.

    statistic: takes as many groups, whose scores have one more axis before that of the runs, and keeps it.
    """
    rng = np.random.default_rng(seed)
    # Pairs of runs are the most that a statistic looks at; so many draws at once as memory bears.
    at_once = max(1, _AT_ONCE // max(1, math.prod(sum(runs.size for runs in tasks) for tasks in groups)))
    found = [
        statistic(*([runs[rng.integers(len(runs), size=(some, len(runs)))] for runs in tasks] for tasks in groups))
        for some in [at_once] * (draws // at_once) + [draws % at_once]
    ]
    lo, hi = np.quantile(np.concatenate(found), [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Estimate(statistic(*([runs[None] for runs in tasks] for tasks in groups))[0], lo, hi)


def overall_iqm(tasks: Tasks) -> Estimate:
    """The interquartile mean of all runs of all tasks."""
    return bootstrap(lambda tasks: iqm(np.concatenate(tasks, axis=1)), tasks)


def profile(tasks: Tasks, thresholds: np.ndarray) -> Series:
    """The share of all runs that score more than each threshold."""

    def shares(tasks: Tasks) -> np.ndarray:
        scores = np.concatenate(tasks, axis=1)
        return np.stack([(scores > threshold).mean(1) for threshold in thresholds], axis=1)

    return Series(thresholds, *bootstrap(shares, tasks))


def improvement(ours: Tasks, theirs: Tasks) -> Estimate:
    """The chance that a run of ours beats one of theirs on the same task, a tie half; the mean over tasks."""
    return bootstrap(_improvement, ours, theirs)


def _improvement(ours: Tasks, theirs: Tasks) -> np.ndarray:
    pairs = [x[:, :, None] - y[:, None, :] for x, y in zip(ours, theirs, strict=True)]
    return np.mean([((gap > 0) + 0.5 * (gap == 0)).mean((1, 2)) for gap in pairs], axis=0)
