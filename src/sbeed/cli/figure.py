"""`sbeed figure`: the paper's figures, and that of its theory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sbeed.cli.console import ENVIRONMENT_FAULT, UserError, complaints, counting, make_directory, require
from sbeed.cli.report import write_page

if TYPE_CHECKING:
    from sbeed.experiments import spec
    from sbeed.experiments.executors import Executor

MOST_SEEDS = 1000


@dataclass(frozen=True)
class FigureCommand:
    """Make a figure of the paper, of its theory, or of today's defaults. The same command again does what is left."""

    name: Annotated[Literal["ablation", "off-policy", "on-policy", "q-form", "scores", "theory"], tyro.conf.Positional]
    """Which figure."""
    scale: Literal["smoke", "full"] = "smoke"
    """How large: to see that all of it runs, in minutes, or as the paper has it, in days. The theory's has one size."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 5, smoke: 1)")] = None
    """Runs of each curve, with the seeds 0, 1, ..., or 20, 21, ... of q-form and scores, whose search had others."""
    only: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")
    ] = None
    """Tasks, panels or curves to run. What was asked for before stays in the figure."""
    together: bool = False
    """Train the seeds of a curve as one population, in one program: what a GPU wants. One population for as many cores
    as it has members; on a GPU their numbers are close to those of runs alone, not equal to them."""
    executor: Literal["local", "ray"] = "local"
    """Where: processes of this machine, one for each core, or tasks of a Ray cluster."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """A Ray cluster to join; without it one is started here, for this machine alone."""
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: results/NAME, smoke: out/NAME)")
    ] = None
    """Directory for its runs, figure.json, the pictures and report.html."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 0)")] = None
    """Of what is sampled in the theory's figure, at least 0."""

    def __call__(self) -> int:
        require("figure", find_spec("matplotlib") is not None, "needs matplotlib: pip install 'sbeed[plot]'")
        folder = "results" if self.scale == "full" or self.name == "theory" else "out"
        out = self.out or Path(folder) / self.name.replace("-", "_")
        return self._theory(out) if self.name == "theory" else self._runs(out)

    def _theory(self, out: Path) -> int:
        given = {
            "--seeds": self.seeds,
            "--only": self.only,
            "--together": self.together,
            "--executor": self.executor != "local",
            "--address": self.address,
        }
        for flag, value in given.items():
            require(flag, not value, "the theory's figure has no runs")
        seed = self.seed or 0
        require("--seed", 0 <= seed < 2**32, f"must lie in [0, 2^32), got {seed}")
        make_directory("--out", out)
        from sbeed.experiments.figures import theory
        from sbeed.training.compile_cache import keep_compiled_programs

        keep_compiled_programs()

        with counting(len(theory.PANELS), "panels") as advance:
            written = theory.write(out, seed=seed, progress=advance)
        print("\n".join(str(path) for path in written))
        return 0

    def _runs(self, out: Path) -> int:
        require("--seed", self.seed is None, "is for the theory's figure; --seeds says how many runs a curve has")
        require(
            "--seeds",
            self.seeds is None or 1 <= self.seeds <= MOST_SEEDS,
            f"must lie in 1..{MOST_SEEDS}, got {self.seeds}",
        )
        figure, seeds = self._figure()
        require("--together", not self.together or self.executor == "local", "is for --executor local")
        make_directory("--out", out)
        from sbeed.experiments import runner
        from sbeed.experiments.progress_bars import bars
        from sbeed.reporting import figure_folder
        from sbeed.storage.lock import locked

        with (
            complaints(ValueError, OSError),
            locked(out),
            executing(self.executor, self.address, members=seeds if self.together else 1) as executor,
            bars(self.name) as show,
        ):
            failures = runner.run_figure(
                figure,
                out,
                executor,
                seeds=seeds,
                scale=self.scale,
                show=show,
                only=self.only or (),
                together=self.together,
            )
        with complaints(ValueError, OSError):
            drawn = _draw(out)
        print("\n".join(str(path) for path in (out / figure_folder.FIGURE, *drawn)))
        if failures:
            raise UserError(f"{len(failures)} runs could not be finished; the first: {failures[0]}", ENVIRONMENT_FAULT)
        return 0

    def _figure(self) -> "tuple[spec.Figure, int]":
        """All of it, of which --only names something, and how many seeds a curve has."""
        from sbeed.experiments.figures import ablation, off_policy, on_policy, q_form, scores
        from sbeed.experiments.figures.sizes import SCALES, at_scale
        from sbeed.experiments.spec import chosen, labels_in, places_in, trains_alone

        figure = {module.FIGURE.name: module.FIGURE for module in (ablation, off_policy, on_policy, q_form, scores)}[
            self.name
        ]
        names = [*places_in(figure), *labels_in(figure)]
        known = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
        require("--only", self.only != (), f"name at least one of {known}")
        for name in self.only or ():
            require("--only", name in names, f"nothing there is named '{name}'; choose from {known}")
        require("--only", chosen(figure, self.only or ()).panels != (), "nothing there is all of this")
        alone = all(trains_alone(curve.spec) for panel in figure.panels for curve in panel.curves)
        require("--together", not (self.together and alone), f"{self.name} seeds are trained alone")
        return at_scale(figure, self.scale), self.seeds or SCALES[self.scale].seeds


@contextmanager
def executing(name: str, address: str | None, slots: int | None = None, *, members: int = 1) -> "Iterator[Executor]":
    """The executor of that name; however the block ends, nothing of it goes on running.   members: of each run"""
    from sbeed.experiments import executors

    require("--address", address is None or name == "ray", "is for --executor ray")
    if name == "local":
        executor: Executor = executors.Local(slots, members=members)
    else:
        require("--executor", find_spec("ray") is not None, "needs ray: pip install 'sbeed[ray]'")
        with complaints(ConnectionError, RuntimeError, ValueError):
            executor = executors.Ray(address, slots)
    try:
        yield executor
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on from here") from None
    finally:
        executor.close()


def _draw(out: Path) -> list[Path]:
    """Pictures of what is there, and its page."""
    from sbeed.reporting import figure_folder, plots
    from sbeed.reporting.figure_results import Results

    figure = figure_folder.read_figure(out)
    seen = any(run.curves for panel in figure.panels for run in panel.runs)
    page = write_page(out, Results([figure], claims=[], theory=[]))  # whatever else lies below it
    return [*(plots.pictures(figure) if seen else ()), page]
