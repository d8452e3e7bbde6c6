"""The training loop: advance the trainer, evaluate it, pass on rows, request checkpoints.

A row holds env, seed, the member's own fields, step, iteration, final, return, return_std, length, train_return, the
update's metrics, seconds and their parts. Names that end in "seconds" are clocks; all else is reproducible. A run that
continued with new episodes (`session`) has restarts, their number.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sbeed.storage.run_dir import Row
from sbeed.training.lapack_threads import lapack_on_one_thread
from sbeed.training.trainer import Trainer

OnRows = Callable[[list[Row]], None]
OnProgress = Callable[[Trainer], Any]
OnCheckpoint = Callable[[float], None]  # seconds that the run has taken


def ignore(news: Any) -> None:
    """A callback that does nothing."""


def goes_on(answer: Any) -> bool:
    """False for a callback's answer that ends the run: any falsy one, numpy's False and 0 too, but None."""
    return answer is None or bool(answer)


def run_loop(
    trainer: Trainer,
    steps: int,
    *,
    evaluate_every: int | None = 20_000,
    episodes: int = 5,
    final_episodes: int = 20,
    checkpoint_every: int | None = None,
    on_rows: OnRows = ignore,
    on_checkpoint: OnCheckpoint = ignore,
    on_progress: OnProgress = ignore,
    seconds: float = 0.0,
) -> list[Row]:
    """Let a trainer take exactly `steps` more steps; one row per member and evaluation, the last ones `final`.

    evaluate_every: None for no evaluations and no rows, not even at the end. checkpoint_every: None for no checkpoints;
    else the last is made before the final rows, so that a run killed while it makes them can still make them.
    on_progress is called after every iteration and ends the run by a falsy answer other than None. seconds: time that
    the run has taken before. Members that diverged give no more rows.
    """
    start, goal = time.perf_counter(), trainer.step + steps
    rows: list[Row] = []

    def look(episodes: int, final: bool) -> None:
        some = _rows(trainer, episodes, start - seconds, final)
        rows.extend(some)
        on_rows(some)

    stopped = False
    with lapack_on_one_thread():
        while trainer.step < goal and not stopped:
            before = trainer.step
            trainer.advance(goal - before)
            stopped = not goes_on(on_progress(trainer))
            # A run that goes on after it was stopped has these rows too.
            if trainer.step < goal and _passes(evaluate_every, before, trainer.step):
                look(episodes, final=False)
            now_or_never = stopped or trainer.step >= goal
            if checkpoint_every and (now_or_never or _passes(checkpoint_every, before, trainer.step)):
                on_checkpoint(time.perf_counter() - start + seconds)
        if evaluate_every:
            look(final_episodes, final=True)
    return rows


def _passes(every: int | None, before: int, now: int) -> bool:
    """True if a multiple of `every` lies in (before, now]."""
    return before // every != now // every if every else False


def _rows(trainer: Trainer, episodes: int, start: float, final: bool) -> list[Row]:
    iteration = trainer.iteration
    played: dict[str, np.ndarray] = {}
    if trainer.plays:
        scores = trainer.evaluate(episodes)
        played = {
            "return": scores.returns.mean(1),
            "return_std": scores.returns.std(1),
            "length": scores.lengths.mean(1),
        }
    spent = {f"{part}_seconds": seconds for part, seconds in trainer.seconds.items()}
    columns: dict[str, Any] = {
        **played,
        "train_return": [np.mean(some) if some else None for some in trainer.recent],
        **trainer.metrics,
    }
    return [
        {
            "env": trainer.spec.name,
            "seed": seed,
            **variant,
            "step": trainer.step,
            "iteration": iteration,
            "final": final,
            **{name: None if column[i] is None else float(column[i]) for name, column in columns.items()},
            "seconds": time.perf_counter() - start,
            **spent,
        }
        for i, (seed, variant) in enumerate(zip(trainer.seeds, trainer.variants))
        if i not in trainer.diverged
    ]
