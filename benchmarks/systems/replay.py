"""A replay in a process that has nothing else: created, then filled chunk by chunk.   replay CAPACITY CHUNK"""

import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from benchmarks.processes import Answer, serve
from benchmarks.systems.programs import SPEC
from sbeed.data import replay as ring
from sbeed.types import Transition


def resident(kind: str) -> int:
    """Bytes in memory: VmRSS is now, VmHWM the most there ever were."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(kind))


def main() -> None:
    capacity, chunk = map(int, sys.argv[1:])
    shapes, rows = (jax.eval_shape(partial(ring.empty, SPEC, size)) for size in (capacity, chunk))
    create = jax.jit(partial(ring.empty, SPEC, capacity)).lower().compile()
    insert = jax.jit(ring.insert, donate_argnums=0).lower(shapes, rows.data).compile()

    def fill() -> Answer:
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the most from now on
        replay, rng = create(), np.random.default_rng(0)
        for _ in range(capacity // chunk):
            # Not zeros, which may cost no memory.
            replay = insert(replay, Transition(*(rng.random(x.shape).astype(x.dtype) for x in rows.data)))
        arrays = sum(x.nbytes for x in jax.tree.leaves(jax.block_until_ready(replay)))
        return {"arrays": arrays, "peak": resident("VmHWM") - before}

    serve({"fill": fill})


if __name__ == "__main__":
    main()
