"""Callbacks for `learn` and `fit`. What they do follows from the agent and their files: a resumed run does the same.

agent.learn(1_000_000, [Evaluate("runs/a/best"), StopAt(-150), Video("films")], out="runs/a", resume=True)
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sbeed.api import Algorithm, Score
from sbeed.storage.safe_open import read_safely
from sbeed.storage.safe_write import write_file

_MOST_BYTES = 2**26


def is_due(agent: Algorithm, every: int) -> bool:
    """True if the last iteration reached or passed a multiple of so many steps."""
    now = agent.num_timesteps
    return now // every != (now - agent.last_steps) // every


@dataclass
class Evaluate:
    """Evaluate every so many steps, and keep the best model.

    path: a directory for `evaluations.jsonl`, a row for each evaluation, and `model`, the best so far. The rows go to
    the agent's logger too, as eval/mean_return.
    """

    path: str | Path
    every: int = 20_000
    episodes: int = 5

    def __call__(self, agent: Algorithm) -> None:
        if is_due(agent, self.every):
            path, now = Path(self.path), agent.num_timesteps
            path.mkdir(parents=True, exist_ok=True)
            before = [row for row in self.rows() if row["step"] < now]  # later ones are those of a run cut short
            score = agent.evaluate(self.episodes)
            if score.mean_return > max((row["mean_return"] for row in before), default=-float("inf")):
                agent.save(path / "model")
            self._append(before, now, score)
            agent.logger.record("eval/mean_return", score.mean_return)

    def rows(self) -> list[dict[str, Any]]:
        """The evaluations so far."""
        file = Path(self.path) / "evaluations.jsonl"
        lines = read_safely(file, _MOST_BYTES).decode().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def _append(self, before: list[dict[str, Any]], now: int, score: Score) -> None:
        rows = [*before, {"step": now, **score._asdict()}]
        write_file(Path(self.path) / "evaluations.jsonl", "".join(json.dumps(row) + "\n" for row in rows).encode())


@dataclass
class StopAt:
    """End the call when the last training episodes reach a mean return."""

    mean_return: float
    episodes: int = 20  # at most 20

    def __call__(self, agent: Algorithm) -> bool:
        recent = agent.recent_returns[-self.episodes :]
        return len(recent) < self.episodes or sum(recent) / len(recent) < self.mean_return


@dataclass
class Checkpoint:
    """Save the agent every so many steps, as `<path>/<steps>_steps`; `learn(out=...)` makes checkpoints to resume."""

    path: str | Path
    every: int = 20_000

    def __call__(self, agent: Algorithm) -> None:
        if is_due(agent, self.every):
            Path(self.path).mkdir(parents=True, exist_ok=True)
            agent.save(Path(self.path) / f"{agent.num_timesteps}_steps")


@dataclass
class Video:
    """Film the deterministic policy every so many steps, as `<path>/<steps>_steps.mp4` (or .gif)."""

    path: str | Path
    every: int = 100_000
    episodes: int = 1
    suffix: str = ".mp4"

    def check(self, agent: Algorithm) -> None:
        """Raise a ValueError, before the first step, if the agent's environment cannot be filmed."""
        from sbeed.collect.video import check_filmable

        if self.suffix not in (".mp4", ".gif"):
            raise ValueError(f"suffix: must be .mp4 or .gif, got {self.suffix!r}")
        check_filmable(agent.task.name, named_by_user=True)

    def __call__(self, agent: Algorithm) -> None:
        if is_due(agent, self.every):
            from sbeed.collect.video import film
            from sbeed.storage.safe_write import new_file

            Path(self.path).mkdir(parents=True, exist_ok=True)
            asked: dict[str, Any] = {"seed": agent.seed, "noise": agent.task.noise, "named_by_user": True}
            with new_file(Path(self.path) / f"{agent.num_timesteps}_steps{self.suffix}") as part:
                film(part, agent.task.name, agent.policy, self.episodes, **asked)
