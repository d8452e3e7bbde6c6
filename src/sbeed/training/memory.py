"""What a run will take of the memory, asked before it is taken: an allocation that fails later may never return."""

import os
import resource
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import jax

from sbeed.agents.base import Agent, Config
from sbeed.data import replay as ring
from sbeed.training import compiled_steps
from sbeed.types import EnvSpec

_ENDLESS = 2**60  # a limit that is none


def check_memory(agent: Agent, config: Config, spec: EnvSpec, members: int, *, replay: bool) -> None:
    """Raise a ValueError in one line if the members cannot fit, with the bytes that they take and that are free.

    replay: it is still to be made.
    """
    each = needed(agent, config, spec, replay=replay)
    total, free = members * sum(each.values()), free_bytes()
    if free is not None and total > free:
        parts = ", ".join(f"{name} {members * size:,}" for name, size in each.items())
        raise ValueError(
            f"memory: the run takes at least {total:,} bytes ({parts}), {free:,} are free: "
            "a smaller replay_capacity, hidden or batch_size takes less"
        )


def needed(agent: Agent, config: Config, spec: EnvSpec, *, replay: bool) -> dict[str, int]:
    """The bytes that a member takes at the least, by part. Nothing is allocated."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = jax.eval_shape(lambda key: compiled_steps.first_state(config, key, agent=agent, spec=spec), key)
    found = {"parameters": bytes_of(state)}
    if replay:
        found["replay"] = bytes_of(jax.eval_shape(lambda: ring.empty(spec, config.replay_capacity)))
    rows = getattr(config, "batch_size", 0)
    row = 2 * spec.observation_size + sum(getattr(config, "hidden", ()))
    return {**found, "batch": 4 * rows * row}


def bytes_of(tree: Any) -> int:
    """Of a tree of shapes; a random key counts for nothing."""
    return sum(prod(x.shape) * getattr(x.dtype, "itemsize", 0) for x in jax.tree.leaves(tree))


def free_bytes() -> int | None:
    """The bytes that this process may still take where agents learn: on the device, or in its own memory.

    None where nobody says.
    """
    told = jax.local_devices()[0].memory_stats()
    if told and "bytes_limit" in told:
        return int(told["bytes_limit"] - told.get("bytes_in_use", 0))
    return min((*_of_the_machine(), *_of_the_group(), *_of_the_process()), default=None)


def _of_the_machine() -> Iterator[int]:
    told = dict(line.split(":", 1) for line in _lines(Path("/proc/meminfo")))
    if "MemAvailable" in told:
        yield sum(int(told.get(name, "0").split()[0]) * 1024 for name in ("MemAvailable", "SwapFree"))


def _of_the_group() -> Iterator[int]:
    """Control groups, of both versions: theirs and the one that a container sees as its root."""
    v2 = ("memory.max", "memory.current", "inactive_file")
    v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    for line in _lines(Path("/proc/self/cgroup")):
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        root, names = Path("/sys/fs/cgroup", kinds), v1 if kinds else v2
        for place in (root / path.lstrip("/"), root):
            limit, used = (_lines(place / name) for name in names[:2])
            if limit and used and limit[0].isdigit() and int(limit[0]) < _ENDLESS:
                stat = dict(line.split() for line in _lines(place / "memory.stat"))
                yield max(0, int(limit[0]) - int(used[0]) + int(stat.get(names[2], 0)))


def _of_the_process() -> Iterator[int]:
    """Limits such as `ulimit -v` sets."""
    pages = [int(word) for line in _lines(Path("/proc/self/statm")) for word in line.split()]
    for kind, place in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit, _ = resource.getrlimit(kind)
        if pages and limit != resource.RLIM_INFINITY:
            yield max(0, limit - pages[place] * os.sysconf("SC_PAGE_SIZE"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
