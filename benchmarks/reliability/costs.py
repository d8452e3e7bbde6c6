"""What keeping a run safe costs: `python -m benchmarks.reliability.costs`, in a few minutes.

In processor time: its shares depend little on what else the machine does, unlike those of a clock.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.reliability.runs import replaced
from sbeed.collect import rollout
from sbeed.envs import registry
from sbeed.envs.base import JaxEnv
from sbeed.storage.checkpoints import Checkpoints
from sbeed.training import compiled_steps
from sbeed.training.run import RunSpec, make_trainer
from sbeed.training.trainer import Trainer

ENV = "jax:pendulum"
CHECKPOINT_EVERY = 20_000  # steps, as `sbeed train` has it


class Guards(NamedTuple):
    """Seconds of an iteration with the checks that every number is finite and without them, and of the checks alone.

    The first two are medians and differ by less than they spread where checks are cheap. The third is a bound: alone,
    the checks read from memory what the iteration has at hand, and are called from Python.
    """

    guarded: float
    bare: float
    alone: float


class Interval(NamedTuple):
    steps: float  # seconds of
    checkpoint: float


def guards(agent: str, *, iterations: int = 3, rounds: int = 9, **fields: Any) -> Guards:
    """On jax:pendulum, where an iteration is one program. With and without checks take turns."""
    spec = RunSpec(ENV, agent=agent, fields=fields)
    guarded, bare = make_trainer(spec), make_trainer(spec)
    found: tuple[list[float], list[float]] = ([], [])

    def advance(running: Trainer) -> float:
        return _seconds(lambda: [running.advance(running.config.steps_per_iteration) for _ in range(iterations)])

    while not (guarded.metrics and bare.metrics):  # until both are compiled and learn
        advance(guarded)
        with replaced(compiled_steps, "collect_and_learn", _unguarded):
            advance(bare)
    for _ in range(rounds):
        found[0].append(advance(guarded) / iterations)
        with replaced(compiled_steps, "collect_and_learn", _unguarded):
            found[1].append(advance(bare) / iterations)
    return Guards(median(found[0]), median(found[1]), _checks_alone(guarded))


_guarded = compiled_steps.collect_and_learn


def _unguarded(*trees: Any, **static: Any) -> Any:
    """The program of an iteration without the check that its numbers are finite."""
    with (
        replaced(rollout, "first_fault", lambda life, chunk, count: jnp.int32(-1)),
        replaced(compiled_steps, "finite", lambda tree: jnp.array(True)),
    ):
        return _guarded(*trees, **static)


def _checks_alone(running: Trainer, calls: int = 2_000) -> float:
    agent, config, length = running.agent, running.config, running.config.steps_per_iteration
    env, state = registry.make(ENV), running.member(0)
    assert isinstance(env, JaxEnv)
    policy, life = agent.actor(config, state), rollout.begin(env, jax.random.key(0))
    asked = {"length": length, "count": jnp.int32(length), "exploring": jnp.array(True)}
    life, chunk, _ = rollout.collect(env, policy, life, jax.random.key(0), **asked)

    @jax.jit
    def checks(life: Any, chunk: Any, policies: Any) -> Any:
        return rollout.first_fault(life, chunk, asked["count"]), compiled_steps.finite(policies)

    shown = jax.device_put((life, chunk, (policy, agent.deployed(config, state))))
    jax.block_until_ready(checks(*shown))
    return _seconds(lambda: [jax.block_until_ready(checks(*shown)) for _ in range(calls)]) / calls


def checkpoints(env: str, intervals: int = 4) -> list[Interval]:
    """Of a warm-up, when nothing is learned and steps are quickest: 20,000 of them, and the checkpoint after them."""
    running = make_trainer(RunSpec(env, fields={"warmup": (intervals + 1) * CHECKPOINT_EVERY}))

    def advance() -> None:
        goal = running.step + CHECKPOINT_EVERY
        while running.step < goal:
            running.advance(goal - running.step)

    with tempfile.TemporaryDirectory() as place:
        store = Checkpoints(Path(place))
        store.save(running.snapshot())
        found = [
            Interval(_seconds(advance), _seconds(lambda: store.save(running.snapshot()))) for _ in range(intervals)
        ]
    running.close()
    return found


def _seconds(act: Callable[[], Any]) -> float:
    begin = time.process_time()
    act()
    return time.process_time() - begin


def main() -> None:
    for agent in ("sbeed", "trpo"):
        cost = guards(agent)
        print(
            f"{agent} on {ENV}: an iteration takes {cost.guarded * 1e3:.1f} ms with checks, {cost.bare * 1e3:.1f} ms "
            f"without; the checks alone {cost.alone * 1e6:.0f} us, {cost.alone / cost.guarded:.2%}",
            flush=True,
        )
    for env in ("Pendulum-v1", ENV):
        shares = [f"{one.checkpoint / one.steps:.1%} of {one.steps:.2f} s" for one in checkpoints(env)]
        print(
            f"{env}, warm-up: a checkpoint after every {CHECKPOINT_EVERY:,} steps takes {', '.join(shares)}", flush=True
        )


if __name__ == "__main__":
    main()
