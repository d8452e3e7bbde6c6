"""`sbeed figure`: make the paper's figures and the theory figure."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from sbeed.cli.console import ENVIRONMENT_FAULT, UserError, complaints, counting, make_directory, require, say
from sbeed.cli.report import write_page

if TYPE_CHECKING:
    from sbeed.experiments import spec
    from sbeed.experiments.executors import Executor

MOST_SEEDS = 1000


@dataclass(frozen=True)
class FigureCommand:
    """Make a figure of the paper, of its theory, or of today's defaults. Repeat the command to finish what is left."""

    name: Annotated[
        Literal["ablation", "off-policy", "on-policy", "q-form", "replay-size", "scores", "theory", "today"],
        tyro.conf.Positional,
    ]
    """Figure to make."""
    scale: Literal["smoke", "full"] = "smoke"
    """smoke checks in minutes that everything runs; full is the paper's size and takes days. theory has one size."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 5, smoke: 1)")] = None
    """Number of runs of each curve. Seeds count from 20, which no search used, or from 0 for on-policy."""
    only: Annotated[
        tuple[str, ...] | None, tyro.conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="(default: all)")
    ] = None
    """Tasks, panels or curves to run. Earlier runs stay in the figure."""
    together: bool = False
    """Train the seeds of a curve as one population in one program, which suits a GPU. A population takes as many cores
    as it has members; on a GPU its numbers are close to those of separate runs, not equal to them."""
    executor: Literal["local", "ray"] = "local"
    """Where runs execute: processes of this machine, one per core, or tasks of a Ray cluster."""
    address: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """Ray cluster to join; without it, one is started on this machine alone."""
    out: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: results/NAME, smoke: out/NAME)")
    ] = None
    """Directory for the runs, figure.json, the pictures and report.html."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="(default: 0)")] = None
    """Seed of the sampling in the theory figure, at least 0."""

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
            require(flag, not value, "the theory figure has no runs")
        seed = self.seed or 0
        require("--seed", 0 <= seed < 2**32, f"must lie in [0, 2^32), got {seed}")
        make_directory("--out", out)
        from sbeed.experiments.figures import theory
        from sbeed.training.compile_cache import keep_compiled_programs

        keep_compiled_programs()

        with counting(len(theory.PANELS), "panels") as advance:
            written = theory.write(out, seed=seed, progress=advance)
        say("\n".join(str(path) for path in written))
        return 0

    def _runs(self, out: Path) -> int:
        require("--seed", self.seed is None, "applies to the theory figure alone; --seeds sets the runs per curve")
        require(
            "--seeds",
            self.seeds is None or 1 <= self.seeds <= MOST_SEEDS,
            f"must lie in 1..{MOST_SEEDS}, got {self.seeds}",
        )
        figure, seeds = self._figure()
        require("--together", not self.together or self.executor == "local", "requires --executor local")
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
        say("\n".join(str(path) for path in (out / figure_folder.FIGURE, *drawn)))
        if failures:
            raise UserError(f"{len(failures)} runs could not be finished; the first: {failures[0]}", ENVIRONMENT_FAULT)
        return 0

    def _figure(self) -> "tuple[spec.Figure, int]":
        """Find the figure, check what --only names, and return both the figure at its size and the seeds of a curve."""
        from sbeed.experiments.figures.sizes import SCALES, at_scale
        from sbeed.experiments.spec import chosen, labels_in, places_in, trains_alone

        figure = import_module(f"sbeed.experiments.figures.{self.name.replace('-', '_')}").FIGURE
        names = [*places_in(figure), *labels_in(figure)]
        known = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
        require("--only", self.only != (), f"name at least one of {known}")
        for name in self.only or ():
            require("--only", name in names, f"the figure has nothing named '{name}'; choose from {known}")
        require(
            "--only", chosen(figure, self.only or ()).panels != (), "no curve of the figure matches all these names"
        )
        alone = all(trains_alone(curve.spec) for panel in figure.panels for curve in panel.curves)
        require("--together", not (self.together and alone), f"the seeds of {self.name} can only be trained separately")
        return at_scale(figure, self.scale), self.seeds or SCALES[self.scale].seeds


@contextmanager
def executing(name: str, address: str | None, slots: int | None = None, *, members: int = 1) -> "Iterator[Executor]":
    """Start the executor of that name; stop all its work when the block ends.   members: agents in each run"""
    from sbeed.experiments import executors
    from sbeed.training.interrupt import terminable

    require("--address", address is None or name == "ray", "requires --executor ray")
    if name == "local":
        executor: Executor = executors.Local(slots, members=members)
    else:
        require("--executor", find_spec("ray") is not None, "needs ray: pip install 'sbeed[ray]'")
        with complaints(ConnectionError, RuntimeError, ValueError):
            executor = executors.Ray(address, slots)
    try:
        with terminable("run the same command to continue"):
            yield executor
    except KeyboardInterrupt:
        raise KeyboardInterrupt("run the same command to continue") from None
    finally:
        executor.close()


def _draw(out: Path) -> list[Path]:
    """Draw the pictures of a figure's folder and write its page."""
    from sbeed.reporting import figure_folder, plots
    from sbeed.reporting.figure_results import Results

    figure = figure_folder.read_figure(out)
    seen = any(run.curves for panel in figure.panels for run in panel.runs)
    page = write_page(out, Results([figure], claims=[], theory=[]))  # whatever else lies below it
    return [*(plots.pictures(figure) if seen else ()), page]
