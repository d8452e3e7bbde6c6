"""Run the laboratory: every statement on a batch of random MDPs, and its counterexample, which must fail."""

import functools
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.envs.tabular import FiniteMDP, garnets
from sbeed.theory.claim import Statement

# MDPs per program.
AT_ONCE = 200

# jaxlib 0.10 splits a large batch of matrices among the threads of a pool, one for each core, and waits for them in one
# of these threads: with two cores, two batches at once can wait for each other for ever. So the pool gets threads to
# spare. It is made when jax first computes.
os.environ.setdefault("NPROC", "64")

# What runs once for a moment is not worth optimising; what iterates is.
QUICK_COMPILE, FAST_CODE = {"xla_backend_optimization_level": 0}, {"xla_backend_optimization_level": 1}


@dataclass(frozen=True)
class Row:
    """What became of one statement."""

    name: str
    holds: bool  # on every MDP, and the counterexample failed as it must
    held: int  # number of MDPs on which the check held
    mdps: int
    margin: float  # the smallest over the MDPs: the share of the right-hand side left unused
    counterexample_fails: bool
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """For JSON, which has no infinity: the margin of a bound that means nothing is null."""
        return {**asdict(self), "margin": self.margin if np.isfinite(self.margin) else None}


def run(
    statements: Iterable[Statement],
    *,
    mdps: int = 200,
    seed: int = 0,
    on_row: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """One row per statement, in their order; `on_row` hears of each as it ends.

    mdps: how many for an algebraic statement; an asymptotic one takes a tenth of them, at least two, and one about an
    average at least 20.
    """
    statements = list(statements)

    def work(statement: Statement) -> Row:
        row = examine(statement, mdps=_how_many(statement, mdps), seed=seed)
        on_row(row)
        return row

    # Two at a time, for compiling keeps one core busy; the long ones first, so that none is left alone at the end.
    with ThreadPoolExecutor(max_workers=2) as pool:
        longest_first = sorted(statements, key=lambda statement: not statement.asymptotic)
        done = {row.name: row for row in pool.map(work, longest_first)}
    return [done[statement.name] for statement in statements]


def _how_many(statement: Statement, mdps: int) -> int:
    count = max(2, mdps // 10) if statement.asymptotic else mdps
    return max(20, count) if statement.pooled else count


def examine(statement: Statement, *, mdps: int, seed: int) -> Row:
    """Check one statement in float64 on `mdps` garnets drawn from `seed`."""
    start = time.perf_counter()
    with jax.enable_x64(True):
        batch = _garnets(mdps, statement.states, statement.actions, statement.stationary, seed)
        key = jax.random.key(seed + 1)
        jit = functools.partial(jax.jit, compiler_options=FAST_CODE if statement.asymptotic else QUICK_COMPILE)
        if statement.pooled:
            claims = [jit(statement.check)(batch, key)]
        else:
            check, keys = jit(jax.vmap(statement.check)), jax.random.split(key, mdps)
            parts = [slice(i, i + AT_ONCE) for i in range(0, mdps, AT_ONCE)]
            claims = [check(jax.tree.map(lambda x, part=part: x[part], batch), keys[part]) for part in parts]
        # A pooled statement may speak of the batch as a whole: its one verdict is every MDP's.
        margins = np.broadcast_to(np.concatenate([np.atleast_1d(claim.margin) for claim in claims]), (mdps,))
        held = int(np.sum(np.broadcast_to(np.concatenate([np.atleast_1d(c.holds) for c in claims]), (mdps,))))
        counter = jit(statement.counterexample)()
        # A number that is not one proves nothing: the counterexample must be false, not undefined.
        fails = bool(jnp.isfinite(counter.margin) & ~counter.holds)
    return Row(
        name=statement.name,
        holds=held == mdps and fails,
        held=held,
        mdps=mdps,
        margin=float(margins.min()) if np.isfinite(margins).all() else float("-inf"),
        counterexample_fails=fails,
        seconds=time.perf_counter() - start,
    )


@functools.cache
def _garnets(count: int, states: int, actions: int, stationary: bool, seed: int) -> FiniteMDP:
    """Kept, because statements of one shape share their MDPs and compiling the generator takes seconds."""
    make = functools.partial(garnets, count=count, states=states, actions=actions, on_path=stationary)
    return jax.jit(make, compiler_options=QUICK_COMPILE)(jax.random.key(seed))
