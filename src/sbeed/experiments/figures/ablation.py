"""fig:ablation_study: what lam, eta and k each do to SBEED on a stochastic Swimmer."""

from collections.abc import Iterable, Mapping, Sequence

from sbeed.agents.sbeed.grids import PAPER_GRIDS
from sbeed.experiments.spec import Curve, Figure, Panel
from sbeed.training.run import RunSpec

TASK = "Swimmer-v5"
NOISE = 0.1  # m/s and rad/s on every joint; the paper does not say what was random in its Swimmer

PRESET = {"lam": 0.0003, "eta": 0.1, "k": 100}
GRIDS: dict[str, Sequence[float]] = {
    "lam": (PRESET["lam"], *PAPER_GRIDS["lam"]),  # rewards are scaled here, and want less
    "eta": (0.0, *PAPER_GRIDS["eta"], 1.0),  # the ends of its range: an intermediate one is between them
    "k": PAPER_GRIDS["k"],
}
# Each value with the highest mean beside the preset's other two; around it the least and the most that learn there.
BEST = {"lam": 0.001, "eta": 0.01, "k": 10}
AROUND_BEST: dict[str, Sequence[float]] = {"lam": (0.0003, 0.001, 0.01), "eta": (0.0, 0.01, 0.1), "k": (1, 10, 100)}


def _curves(name: str, values: Sequence[float], others: Mapping[str, float]) -> Iterable[Curve]:
    for value in values:
        spec = RunSpec(TASK, preset="paper", noise=NOISE, fields={**others, name: value}, checkpoint_every=10_000)
        yield Curve(f"{name} = {value:g}", spec)


PANELS: dict[str, Iterable[Curve]] = {
    **{name: _curves(name, values, PRESET) for name, values in GRIDS.items()},
    **{f"{name}, others best": _curves(name, values, BEST) for name, values in AROUND_BEST.items()},
    # The bias that the dual removes is in V's gradient through what follows, which the preset leaves out.
    "eta, kappa = 1": _curves("eta", GRIDS["eta"], {**PRESET, "kappa": 1.0}),
}
FIGURE = Figure(
    "ablation",
    "SBEED on a stochastic Swimmer",
    tuple(Panel(name, TASK, tuple(curves)) for name, curves in PANELS.items()),
)
