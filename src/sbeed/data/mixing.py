"""Mixing of a path: its autocorrelation, and the number of independent transitions that it is worth.

The statistical error of [paper: thm:statistical_error] falls as T^-1/2 in the length T of one mixing path. The slower
the path mixes, the more steps stand for one independent draw: tau of them, and T / tau is what the rate counts in.
"""

from typing import NamedTuple

import numpy as np

from sbeed.data.dataset import Dataset

WINDOW = 5  # lags that are summed, in units of tau: Sokal's rule


class Mixing(NamedTuple):
    """Mixing of the slowest coordinate, which is one of the observation or the reward."""

    steps: int  # T
    tau: float  # integrated autocorrelation time, in steps
    slowest: str  # "obs[2]" or "reward"
    resolved: bool  # the path is long enough, 50 tau, for tau to be believed

    @property
    def effective(self) -> float:
        """Independent transitions that the path is worth."""
        return self.steps / self.tau

    @property
    def rate(self) -> float:
        """(T / tau)^-1/2, to which the statistical error is proportional."""
        return self.effective**-0.5


def mixing(dataset: Dataset) -> Mixing:
    """Measure the path in its order, resets included: they are part of the behaviour."""
    obs = dataset.transitions().obs
    columns = {f"obs[{i}]": obs[:, i] for i in range(obs.shape[1])} | {"reward": dataset.data.reward}
    taus = {name: integrated_time(np.asarray(x, np.float64)) for name, x in columns.items()}
    slowest = max(taus, key=taus.__getitem__)
    return Mixing(len(dataset), taus[slowest], slowest, resolved=len(dataset) >= 50 * taus[slowest])


def autocorrelation(x: np.ndarray) -> np.ndarray:
    """rho_l = sum_t (x_t - m)(x_t+l - m) / sum_t (x_t - m)^2 for every lag l; 1, 0, 0, ... for a constant.   [T]"""
    centred = x - x.mean()
    spectrum = np.fft.rfft(centred, 2 * len(x))  # padded, so that the end does not meet the beginning
    sums = np.fft.irfft(spectrum * spectrum.conj())[: len(x)]
    if sums[0] <= 1e-12 * len(x) * max(1.0, x.mean() ** 2):
        return np.eye(1, len(x))[0]
    return sums / sums[0]


def integrated_time(x: np.ndarray) -> float:
    """tau = 1 + 2 sum_{l=1}^{W} rho_l with the smallest W >= 5 tau; at least 1.   x: [T]"""
    taus = 2 * np.cumsum(autocorrelation(x)) - 1
    enough = np.arange(len(x)) >= WINDOW * taus
    return float(max(1.0, taus[enough.argmax() if enough.any() else -1]))
