"""The history of a run, which its checkpoints hold."""

import math
from typing import NamedTuple

from sbeed.agents.knobs import whole_number
from sbeed.storage.checkpoints import Checkpoint
from sbeed.storage.tensors import DamagedModel


class Past(NamedTuple):
    """The history of a run up to a checkpoint, saved in it beside the trainer's state."""

    first: int = 0  # the trainer's step when the run began
    rows: int = 0  # size of metrics.jsonl in bytes
    rows_sha256: str = ""  # of those; older checkpoints do not say
    seconds: float = 0.0
    restarts: tuple[int, ...] = ()  # the steps at which the run continued with new episodes


def read_past(checkpoint: Checkpoint) -> Past:
    try:
        past = Past(**checkpoint.about["past"])
        first, rows = (whole_number(name, getattr(past, name), low=0) for name in ("first", "rows"))
        restarts = tuple(whole_number("restarts", step, low=0) for step in past.restarts)
        if not isinstance(past.rows_sha256, str):
            raise ValueError("the hash of its rows is none")
        before = first <= checkpoint.step and all(step < checkpoint.step for step in restarts)
        if not (before and 0 <= past.seconds < math.inf):
            raise ValueError("its numbers contradict each other")
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedModel(f"'{checkpoint.path}' does not say what was before it ({error})") from None
    return Past(first, rows, past.rows_sha256, float(past.seconds), restarts)
