"""`sbeed eval`, `sbeed video`, `sbeed plot`: commands on a run's directory or a saved model."""

import json as json_module
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from sbeed.cli.console import ENVIRONMENT_FAULT, complaints, require, say
from sbeed.cli.train import EnvKwargs, Wrappers, named_env
from sbeed.storage.run_dir import CONFIG, METRICS, is_run, read_config, read_rows, saved_models
from sbeed.storage.safe_write import new_file

if TYPE_CHECKING:
    from sbeed.api import Algorithm


@dataclass(frozen=True)
class Eval:
    """Evaluate the deterministic policy on fresh episodes, all seeds of a run together."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run's directory, or a saved model."""
    episodes: int = 20
    """Episodes of each model, at least 1."""
    env: str | None = None
    """Where to play, if not in the environment that the model names."""
    env_kwargs: EnvKwargs = ()
    """Arguments of that environment, as key=value: with --env."""
    wrapper: Wrappers = ()
    """Wrappers around that environment, as module:Name, the first one innermost: with --env."""
    json: bool = False
    """Print mean_return, std_return, returns and lengths as JSON."""

    def __call__(self) -> int:
        require("--episodes", self.episodes >= 1, f"must be at least 1, got {self.episodes}")
        found = _models(self.run)
        returns: list[float] = []
        lengths: list[int] = []
        for model in found:
            with _playing(model, self.env, self.env_kwargs, self.wrapper) as agent:
                score = agent.evaluate(self.episodes)
            returns += score.returns
            lengths += score.lengths
        mean = sum(returns) / len(returns)
        std = (sum((x - mean) ** 2 for x in returns) / len(returns)) ** 0.5
        if self.json:
            answer = {"mean_return": mean, "std_return": std, "returns": returns, "lengths": lengths}
            say(json_module.dumps(answer, allow_nan=False))
        else:
            say(f"return {mean:.1f} +- {std:.1f}, length {sum(lengths) / len(lengths):.1f}, episodes {len(returns)}")
        return 0


@dataclass(frozen=True)
class Video:
    """Film the deterministic policy at real speed."""

    run: Annotated[Path, tyro.conf.Positional]
    """A run's directory, whose first model is filmed, or a saved model."""
    out: Path | None = None
    """A .gif or .mp4 file; without it, video.mp4 in the run's directory."""
    episodes: int = 1
    """Episodes to film, at least 1."""
    env: str | None = None
    """Where to play, if not in the environment that the model names."""

    def __call__(self) -> int:
        path = self.out or self.run / "video.mp4"
        require("--episodes", self.episodes >= 1, f"must be at least 1, got {self.episodes}")
        require("--out", path.suffix in (".gif", ".mp4"), f"must end in .gif or .mp4, got '{path}'")
        require("--out", path.parent.is_dir() or self.out is None, f"there is no directory '{path.parent}'")
        require("video", find_spec("imageio") is not None, "needs imageio: pip install 'sbeed[video]'")
        with _playing(_models(self.run)[0], self.env) as agent:
            from sbeed.collect import video

            name, policy, by_user = agent.task.name, agent.policy, self.env is not None
            asked: dict[str, Any] = {"seed": agent.seed, "noise": agent.task.noise, "named_by_user": by_user}
            video.check_filmable(name, by_user)
            with new_file(path) as part:
                video.film(part, name, policy, self.episodes, **asked)
        say(path)
        return 0


@dataclass(frozen=True)
class Plot:
    """Draw the learning curves of runs; the band is the 95% interval of the mean over a run's seeds."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Directories of runs; those without a metrics.jsonl are skipped if there are others."""
    out: Path = Path("curves.png")
    """Picture to write, a .png, .svg or .pdf file."""

    def __call__(self) -> int:
        require(
            "--out", self.out.suffix in (".png", ".svg", ".pdf"), f"must end in .png, .svg or .pdf, got '{self.out}'"
        )
        require("--out", self.out.parent.is_dir(), f"there is no directory '{self.out.parent}'")
        require("plot", find_spec("matplotlib") is not None, "needs matplotlib: pip install 'sbeed[plot]'")
        with complaints(OSError, ValueError):
            found = {str(run): read_rows(run) for run in self.runs if (run / METRICS).is_file()}
        rows = {name: some for name, some in found.items() if some}
        require("runs", rows != {}, f"no rows of metrics in {', '.join(str(run) for run in self.runs) or 'nothing'}")
        for name, some in rows.items():
            ours = all(_is_ours(row) for row in some)
            require("runs", ours, f"'{name}' has a {METRICS} that sbeed did not write")
            played = all("return" in row for row in some)
            require("runs", played, f"'{name}' has no returns: it was never evaluated (sbeed fit --eval-env)")
        with complaints(OSError, ValueError):
            fitted = [name for name in rows if _is_fitted(Path(name))]
        from sbeed.reporting import plots

        with complaints(OSError):
            plots.save_as(plots.learning_curves(rows, fitted=fitted), self.out)
        say(self.out)
        return 0


def _is_fitted(run: Path) -> bool:
    """True for a run that learned from a dataset."""
    return is_run(run) and bool(read_config(run / CONFIG).get("data"))


def _is_ours(row: Mapping[str, Any]) -> bool:
    kinds = {"env": str, "seed": int, "step": int}
    number = isinstance(row.get("return"), int | float | None)
    return number and all(isinstance(row.get(name), kind) for name, kind in kinds.items())


def _models(run: Path) -> list[Path]:
    with complaints(OSError):
        return saved_models(run)


@contextmanager
def _playing(
    model: Path, env: str | None, arguments: Sequence[str] = (), wrappers: Sequence[str] = ()
) -> "Iterator[Algorithm]":
    """Load a saved agent for the block; report in one line what goes wrong there."""
    from gymnasium.error import Error as GymnasiumError

    from sbeed.api import Algorithm
    from sbeed.envs.base import EnvironmentFault

    with (
        complaints(EnvironmentFault, code=ENVIRONMENT_FAULT),
        complaints(ValueError, OSError, GymnasiumError, ImportError),
    ):
        agent = Algorithm.load(model, env=None if env is None else named_env(env, arguments, wrappers))
        yield agent
        agent.close()
