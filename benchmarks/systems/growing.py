"""Updates of growing size.   growing PANEL REPLAY BATCH SIZES...: what grows, on how much data, and what does not."""

import argparse
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.processes import Answer, serve
from benchmarks.systems import programs
from sbeed.agents.knobs import with_fields
from sbeed.agents.q_sbeed.config import QConfig
from sbeed.agents.registry import SBEED
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.data.replay import Replay
from sbeed.training.members import Members

SEGMENT = 128  # holds the longest target
TimedUpdate = Callable[[], float]  # seconds of an update


def of_V_and_dual(k: int, batch: int, replay: Replay) -> TimedUpdate:
    """The same segments for every k."""
    config = programs.paper(features=1, k=k, segment_length=SEGMENT, batch_size=batch)
    return _repeated(programs.of_V_and_dual, config, replay, max(3, 60_000 // batch))


def of_pi(features: int, batch: int, replay: Replay) -> TimedUpdate:
    config = programs.paper(features=features, segment_length=SEGMENT, batch_size=batch)
    return _repeated(programs.of_pi, config, replay, 3)


def _repeated(make: Callable[[int], programs.Program], config: SBEEDConfig, replay: Replay, count: int) -> TimedUpdate:
    program, state = make(count), programs.learner(config, replay)
    return lambda: programs.seconds(program, config, state, replay, jax.random.key(1)) / count


def of_agents(count: int, batch: int, replay: Replay) -> TimedUpdate:
    """One update of every agent of a population of `default`, as the trainer runs them."""
    config = with_fields(SBEED.preset("default", programs.SPEC), {"updates_per_iteration": 8, "batch_size": batch})
    members = Members(count)
    k_init, k_run = (jax.random.split(jax.random.key(seed), count) for seed in (0, 1))
    held = (
        members.hold([jax.tree.map(np.float32, config)] * count),
        members.hold([SBEED.init(config, programs.SPEC, key) for key in k_init]),
        members.hold([replay] * count),
        members.hold(list(k_run)),
    )
    return lambda: programs.seconds(members.run, _iterate, *held) / config.updates_per_iteration


def _iterate(config: QConfig, state: Any, replay: Replay, key: jax.Array) -> tuple:
    return SBEED.iterate(config, programs.SPEC, state, replay, key)


PANELS: dict[str, Callable[[int, int, Replay], TimedUpdate]] = {
    "batch": lambda size, _, replay: of_V_and_dual(10, size, replay),
    "k": of_V_and_dual,
    "features": of_pi,
    "agents": of_agents,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("panel", choices=PANELS)
    parser.add_argument("replay", type=int)
    parser.add_argument("batch", type=int)
    parser.add_argument("sizes", type=int, nargs="+")
    given = parser.parse_args()
    replay = programs.walk(given.replay)
    runs = {size: PANELS[given.panel](size, given.batch, replay) for size in given.sizes}
    for run in runs.values():
        run()  # compiles

    def update(size: int) -> Answer:
        return {"seconds": runs[size]()}

    serve({"update": update}, device=programs.device())


if __name__ == "__main__":
    main()
