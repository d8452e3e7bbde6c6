"""fig:ablation_study: what lam, eta and k each do to SBEED on a stochastic Swimmer, the others at their best."""

from typing import Any

from sbeed.agents.sbeed.grids import PAPER_GRIDS
from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

TASK = "Swimmer-v5"
NOISE = 0.1  # m/s and rad/s on every joint; the paper does not say what was random in its Swimmer

BEST = {"lam": 0.0003, "eta": 0.1, "k": 100}  # the preset's
GRIDS = {
    "lam": (BEST["lam"], *PAPER_GRIDS["lam"]),  # rewards are scaled here, and want less
    "eta": (0.0, *PAPER_GRIDS["eta"], 1.0),  # the ends of its range: an intermediate one is between them
    "k": PAPER_GRIDS["k"],
}


def _curve(name: str, value: Any) -> Curve:
    spec = RunSpec(TASK, preset="paper", noise=NOISE, fields={**BEST, name: value}, checkpoint_every=10_000)
    return Curve(f"{name} = {value:g}", spec)


FIGURE = Figure(
    "ablation",
    "SBEED on a stochastic Swimmer",
    tuple(Panel(name, TASK, tuple(_curve(name, value) for value in grid)) for name, grid in GRIDS.items()),
)
