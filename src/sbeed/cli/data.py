"""`sbeed record`, `sbeed value` and `sbeed data`: record datasets, estimate from them, show and exchange them."""

import contextlib
import json as json_module
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from sbeed.cli.console import ENVIRONMENT_FAULT, complaints, require

if TYPE_CHECKING:
    from sbeed.data.dataset import Dataset
    from sbeed.models.host import HostPolicy

BARS = 24  # characters of the longest bar
BINS = 10


@dataclass(frozen=True)
class Record:
    """Run a policy in an environment and save every transition as a dataset for `sbeed fit`."""

    env: str
    """A Gymnasium id such as Hopper-v5, or jax:pendulum, jax:cartpole, jax:lqr."""
    out: Path
    """Directory of the dataset; an existing dataset there is replaced."""
    policy: tuple[str, ...] = ("random",)
    """Policies that act: random, or a run's directory. With several, each episode is played by one of them."""
    steps: int = 100_000
    """Number of transitions to record, at least 1."""
    seed: int = 0
    """Seed of the episodes and the actions."""
    noise: float = 0.0
    """Standard deviation of noise added to every transition of a Gymnasium environment."""
    single_path: bool = False
    """Remove the environment's time limit, so that episodes end only where the environment terminates."""

    def __call__(self) -> int:
        require("--steps", 1 <= self.steps < 2**31, f"must lie in [1, 2^31), got {self.steps}")
        require("--seed", 0 <= self.seed < 2**32, f"must lie in [0, 2^32), got {self.seed}")
        require("--policy", self.policy != (), "name at least one: random, or a run's directory")
        from gymnasium.error import Error as GymnasiumError
        from rich.console import Console
        from rich.progress import Progress

        from sbeed.collect.record_dataset import record_dataset
        from sbeed.envs.base import EnvironmentFault
        from sbeed.storage.datasets import save_dataset

        asked: dict[str, Any] = {"seed": self.seed, "noise": self.noise, "single_path": self.single_path}
        with (
            complaints(EnvironmentFault, code=ENVIRONMENT_FAULT),
            complaints(ValueError, OSError, GymnasiumError, ImportError),
        ):
            players = [_player(name) for name in self.policy]
            console = Console(stderr=True)
            with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
                task = bar.add_task("recording", total=self.steps)
                shown = lambda step: bar.update(task, completed=step) if step % 1000 == 0 else None
                found = record_dataset(
                    self.env,
                    players,
                    self.steps,
                    names=[Path(name).name for name in self.policy],
                    on_step=shown,
                    **asked,
                )
            save_dataset(self.out, found)
        print(self.out)
        return 0


def _player(name: str) -> "HostPolicy | None":
    if name == "random":
        return None
    from sbeed.api import Algorithm
    from sbeed.storage.run_dir import saved_models

    return Algorithm.load(saved_models(Path(name))[0]).policy


@dataclass(frozen=True)
class Value:
    """Estimate the value of a run's policy from a dataset alone: the mean discounted value of its first states."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run's directory, whose first model is used, or a saved model."""
    data: Path
    """Directory of the dataset."""
    updates: int = 20_000
    """Updates of the fitted Q, at least 1; more fit better and cost time."""
    json: bool = False
    """Print the estimates as JSON."""

    def __call__(self) -> int:
        from sbeed.api import Algorithm
        from sbeed.storage.datasets import load_dataset
        from sbeed.storage.run_dir import saved_models

        require("--updates", self.updates >= 1, f"must be at least 1, got {self.updates}")
        with complaints(ValueError, OSError):
            found = Algorithm.load(saved_models(self.run)[0]).estimate_value(
                load_dataset(self.data), updates=self.updates
            )
        if self.json:
            print(json_module.dumps(found._asdict(), allow_nan=False))
            return 0
        for name in ("fitted", "robust"):
            low, high = getattr(found, f"{name}_interval")
            print(f"{name}: {getattr(found, name):.4g}, 95% of the bootstrap from {low:.4g} to {high:.4g}")
        print(f"coverage: {found.coverage:.3f}, {found.effective_pieces:.1f} of {found.pieces} pieces")
        if found.warning:
            print(f"warning: {found.warning}")
        return 0


@dataclass(frozen=True)
class Data:
    """Show a dataset, or convert one from or to Minari.

    `sbeed data show DIR` prints counts, returns, ranges, and how well the path mixes. `sbeed data import MINARI --out
    DIR` and `sbeed data export DIR --out MINARI` take Minari's own directory, the one with `data/` in it. No
    environment that a file names is ever created.
    """

    action: Annotated[Literal["show", "import", "export"], tyro.conf.Positional]
    """What to do."""
    path: Annotated[Path, tyro.conf.Positional]
    """Directory of the dataset; for import, of a Minari dataset."""
    out: Path | None = None
    """Directory to write (import, export), or a .png, .svg or .pdf file for histograms (show)."""
    json: bool = False
    """Print the output of `show` as JSON."""

    def __call__(self) -> int:
        return {"show": self._show, "import": self._import, "export": self._export}[self.action]()

    def _show(self) -> int:
        from sbeed.data.summary import summary
        from sbeed.storage.datasets import load_dataset

        suffixes = (".png", ".svg", ".pdf")
        if self.out is not None:
            require("--out", self.out.suffix in suffixes, f"must end in .png, .svg or .pdf, got '{self.out}'")
            require("--out", self.out.parent.is_dir(), f"there is no directory '{self.out.parent}'")
            require("--out", find_spec("matplotlib") is not None, "needs matplotlib: pip install 'sbeed[plot]'")
        with complaints(ValueError, OSError):
            found = load_dataset(self.path)
        told = summary(found)
        if self.json:
            print(json_module.dumps(told, allow_nan=False))
        else:
            _print(told, found)
        if self.out is not None:
            import numpy as np

            from sbeed.reporting import plots

            rewards = np.asarray(found.data.reward)
            with complaints(OSError):
                plots.save_as(plots.dataset_histograms(found.name, found.returns, found.lengths, rewards), self.out)
        return 0

    def _import(self) -> int:
        from sbeed.storage import minari
        from sbeed.storage.datasets import save_dataset

        with self._exchanging() as out:
            save_dataset(out, minari.read(self.path))
        return 0

    def _export(self) -> int:
        from sbeed.storage import minari
        from sbeed.storage.datasets import load_dataset

        with self._exchanging() as out:
            minari.write(out, load_dataset(self.path))
        return 0

    @contextlib.contextmanager
    def _exchanging(self) -> Iterator[Path]:
        if self.out is None:
            require("--out", False, "name the directory to write")
        require(self.action, find_spec("h5py") is not None, "needs h5py: pip install 'sbeed[minari]'")
        assert self.out is not None
        with complaints(ValueError, OSError):
            yield self.out
        print(self.out)


def _print(told: dict[str, Any], dataset: "Dataset") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    facts = Table(show_header=False, title=Text(f"dataset of {told['name']}"), title_justify="left")
    path = "one path" if told["single_path"] else f"{told['episodes']:,} episodes"
    for name, value in (
        ("transitions", f"{told['transitions']:,}, {path}, {told['terminations']:,} terminations"),
        ("return", _spread(told["return"])),
        ("length", _spread(told["length"])),
        ("reward", _spread(told["reward"])),
        ("origin", json_module.dumps(told["origin"], ensure_ascii=False)),
    ):
        facts.add_row(name, Text(value))
    console.print(facts)
    ranges = Table("", "smallest", "mean", "largest", title="ranges", title_justify="left")
    for name, one in told["ranges"].items():
        ranges.add_row(name, *(f"{one[key]:.4g}" for key in ("min", "mean", "max")))
    console.print(ranges)
    for line in histogram(dataset.returns):
        console.print(Text(line))
    m = told["mixing"]
    console.print(
        f"mixing: {m['slowest']} takes tau = {m['tau']:.1f} steps to forget; the path is worth {m['effective']:,.0f} "
        f"independent transitions, so the statistical error goes as {m['rate']:.4f} (T^-1/2: four times the steps, "
        f"half the error)" + ("" if m["resolved"] else "; the path is too short to estimate tau well")
    )


def _spread(one: dict[str, float]) -> str:
    return f"{one['mean']:.4g} ± {one['std']:.4g}, from {one['min']:.4g} to {one['max']:.4g}"


def histogram(values: Any) -> list[str]:
    """Draw bars of text, one for each of ten ranges of return."""
    import numpy as np

    counts, edges = np.histogram(values, BINS)
    return [
        f"{low:>10.4g} {'█' * round(BARS * int(count) / max(1, int(counts.max()))):<{BARS}} {count}"
        for low, count in zip(edges, counts)
    ]
