"""The theory figure: four statements of the paper, computed on finite MDPs."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, garnets, two_state
from sbeed.reporting import plots, stats
from sbeed.reporting.figure_folder import write_theory
from sbeed.reporting.theory_plots import theory_figure
from sbeed.theory import baird
from sbeed.theory.claims.smoothing_bias import bias
from sbeed.theory.claims.statistical_error import LENGTHS, error_curve, rate
from sbeed.theory.operators import soft_optimum
from sbeed.theory.sampling import empirical_mdp, transition_counts
from sbeed.theory.solve import algorithm_1
from sbeed.types import Array, Key

TheoryRow = dict[str, Any]  # panel, series, x, y, and lo, hi where y has an interval

ETAS = (0.0, 0.25, 0.5, 1.0)
NOISES = tuple(np.linspace(0, 1, 31) ** 1.5)  # denser where the curves bend
SAMPLED_NOISES = (0.0, 0.1, 0.25, 0.4, 0.6, 0.8, 1.0)
PATHS, STEPS = 10, 10_000
LAM = 0.1


def theory_rows(seed: int = 0, progress: Callable[[str], None] | None = None) -> list[TheoryRow]:
    """All rows of the figure, in float64; `progress` is called with each panel's name as it begins."""
    keys = jax.random.split(jax.random.key(seed), 4)
    rows: list[TheoryRow] = []
    with jax.enable_x64(True):
        for (name, panel), key in zip(PANELS.items(), keys):
            if progress is not None:
                progress(name)
            rows += panel(key)
    return rows


def variance_rows(key: Key) -> Iterator[TheoryRow]:
    """Error of V against transition noise, for several eta.

    Lines: the minimiser of L_eta at the dual optimum under exact expectations. Points: on sampled paths, mean and its
    95% interval.
    """
    lines = _errors(_stack(two_state(noise=noise) for noise in NOISES))
    for eta, errors in zip(ETAS, lines.T):
        yield from _rows("a", f"eta={eta:g}", NOISES, errors)

    mdps = _stack(two_state(noise=noise) for noise in SAMPLED_NOISES for _ in range(PATHS))
    points = _errors(mdps, key).reshape(len(SAMPLED_NOISES), PATHS, len(ETAS))
    for eta, y, lo, hi in zip(ETAS, *(part.T for part in stats.mean(points.swapaxes(0, 1)))):
        yield from _rows("a", f"eta={eta:g}, sampled", SAMPLED_NOISES, y, lo, hi)


def _errors(mdps: FiniteMDP, key: Key | None = None) -> np.ndarray:
    """||V_eta - V*_lam||_inf of every MDP and eta, V_eta fitted to a sampled path where a key is given.   [M, E]"""

    def of_mdp(mdp: FiniteMDP, data: FiniteMDP) -> Array:
        solution = soft_optimum(mdp, LAM)
        fitted = jax.vmap(lambda eta: algorithm_1(data, LAM, iterations=5_000, eta=eta))(jnp.array(ETAS))
        return jnp.abs(fitted.V - solution.V).max(-1)

    def on_path(mdp: FiniteMDP, key: Key) -> Array:
        return of_mdp(mdp, empirical_mdp(mdp, transition_counts(mdp, key, (STEPS,))[0]))

    if key is None:
        return np.asarray(jax.jit(jax.vmap(of_mdp))(mdps, mdps))
    return np.asarray(jax.jit(jax.vmap(on_path))(mdps, jax.random.split(key, mdps.mu.shape[0])))


def bias_rows(key: Key) -> Iterator[TheoryRow]:
    """Smoothing bias ||V*_lam - V*||_inf against lam, with its bound lam H* / (1 - gamma), H* = log A."""
    gamma, actions = 0.9, 3
    lams = jnp.logspace(-2.5, 1, 36)

    @jax.jit
    def gaps(key: Key) -> Array:
        return jax.vmap(lambda mdp: jnp.abs(bias(mdp, lams)).max(-1))(garnets(key, 12, actions=actions, gamma=gamma))

    yield from _rows("b", "bound", lams, lams * np.log(actions) / (1 - gamma))
    for i, gap in enumerate(gaps(key)):
        yield from _rows("b", f"MDP {i + 1}", lams, gap)


def baird_rows(key: Key) -> Iterator[TheoryRow]:
    """Baird's star: semi-gradient Q-learning diverges, SBEED converges, though slowly along plain gradients.

    The Bellman error is E[(T_lam V - V)^2] for all, V = max_a Q for Q-learning. Nothing in it is random.
    """
    runs = {
        "Q-learning": baird.q_learning(iterations=3_000, every=10),
        "SBEED": baird.sbeed(iterations=3_000, every=10),
        "SBEED, plain steps": baird.sbeed(iterations=3_000, every=10, plain=True),
    }
    for name, run in runs.items():
        yield from _rows("c", f"{name}: weight norm", run.iteration, run.weight_norm)
        yield from _rows("c", f"{name}: Bellman error", run.iteration, run.bellman_error)


def error_rows(key: Key) -> Iterator[TheoryRow]:
    """Sup error of the empirical optimum V^ against the length T of its path, with the fitted slope.

    The mean is geometric, over MDPs and paths; the interval is its 95% over MDPs.
    """
    k_mdps, k_curve = jax.random.split(key)
    curve = jax.jit(lambda k_mdps, k_curve: error_curve(garnets(k_mdps, 12), k_curve, LENGTHS))(k_mdps, k_curve)
    logs = np.log(np.asarray(curve.sup_error)).mean(1)  # [M, L]
    yield from _rows("d", "mean", curve.T, *map(np.exp, stats.mean(logs)))
    for i, log in enumerate(logs):
        yield from _rows("d", f"MDP {i + 1}", curve.T, np.exp(log))
    slope = rate(curve.T, curve.sup_error)
    yield from _rows("d", "slope", [0.0], *([float(slope.slope) + d * float(slope.half_width)] for d in (0, -1, 1)))


PANELS: dict[str, Callable[[Key], Iterator[TheoryRow]]] = {
    "error of V against transition noise": variance_rows,
    "smoothing bias against lam": bias_rows,
    "Baird's star": baird_rows,
    "error of V against the length of the path": error_rows,
}


def write(out: Path, seed: int = 0, progress: Callable[[str], None] | None = None) -> list[Path]:
    """theory.csv, theory.png and theory.svg in `out`."""
    rows = theory_rows(seed, progress)
    out.mkdir(parents=True, exist_ok=True)
    return [write_theory(out, rows), *plots.save(theory_figure(rows), out / "theory")]


def _rows(panel: str, series: str, x: Any, y: Any, lo: Any = None, hi: Any = None) -> Iterator[TheoryRow]:
    columns = [np.asarray(x), np.asarray(y), *(np.asarray(y if end is None else end) for end in (lo, hi))]
    for values in zip(*columns):
        yield {"panel": panel, "series": series, **dict(zip(("x", "y", "lo", "hi"), map(float, values)))}


def _stack(mdps: Iterable[FiniteMDP]) -> FiniteMDP:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *mdps)
