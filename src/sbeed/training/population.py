"""Many agents that differ in seed and in float fields, in lockstep: environments on the host, one vmapped update."""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sbeed.agents.sbeed import agent
from sbeed.agents.sbeed.config import SBEEDConfig
from sbeed.data import replay as ring
from sbeed.envs.base import HostEnv
from sbeed.envs.registry import make as make_env
from sbeed.models.policies import Policy
from sbeed.training.collect import Collector, MakeEnv
from sbeed.types import EnvSpec, Key

Row = dict[str, Any]  # seed, the member's own fields, step, return, train_return, seconds..., and the update's metrics
Variant = Mapping[str, Any]  # float fields of one member


def members(config: SBEEDConfig, variants: Sequence[Variant]) -> SBEEDConfig:
    """One config whose float fields are arrays with an entry per member.   Other fields set shapes and must agree."""
    floats = {field.name for field in fields(config) if isinstance(getattr(config, field.name), float)}
    for name in {name for variant in variants for name in variant} - floats:
        raise ValueError(f"{name}: members may differ only in the fields {', '.join(sorted(floats))}")
    each = [replace(config, **variant) for variant in variants]
    return jax.tree.map(lambda *values: jnp.asarray(values, jnp.float32), *each)


def train(
    make: MakeEnv,
    spec: EnvSpec,
    config: SBEEDConfig,
    *,
    seeds: Sequence[int],
    steps: int,
    variants: Sequence[Variant] | None = None,
    workers: int = 1,
    evaluate_every: int = 20_000,
    episodes: int = 5,
    final_episodes: int = 20,
    on_rows: Callable[[list[Row]], None] = lambda rows: None,
    deadline: float = float("inf"),
) -> list[Row]:
    """Train one member per seed for `steps` environment steps each; one row per member and evaluation.

    variants: the float fields in which member i differs from `config`. deadline: seconds after which the run ends
    early, with a last evaluation.
    """
    count, chunk = len(seeds), config.steps_per_iteration
    variants = [{}] * count if variants is None else variants
    configs, keys = members(config, variants), jax.vmap(jax.random.key)(jnp.asarray(seeds))
    state = jax.jit(jax.vmap(lambda c, k: agent.init(c, spec, jax.random.fold_in(k, 0))))(configs, keys)
    data = jax.vmap(lambda _: ring.empty(spec, config.replay_capacity))(jnp.arange(count))
    insert = jax.jit(jax.vmap(ring.insert), donate_argnums=0)
    iterate = jax.jit(jax.vmap(lambda c, s, d, k: agent.iterate(c, spec, s, d, k)), donate_argnums=1)

    clock, recent = _Clock(), [deque[float](maxlen=20) for _ in seeds]
    metrics: dict[str, Any] = {}
    rows: list[Row] = []
    collector = Collector(make, seeds, workers)
    for taken in range(chunk, steps + chunk, chunk):
        learning = taken > config.warmup
        with clock.timing("collect"):
            policies = _policies(state.pi, count) if learning else [None] * count
            transitions, returns = collector.collect(policies, chunk)
        for some, new in zip(recent, returns):
            some.extend(new)
        with clock.timing("update"):
            data = insert(data, transitions)
            if learning:
                state, metrics = jax.block_until_ready(iterate(configs, state, data, _fold(keys, taken)))
        over = taken >= steps or clock.total() > deadline
        if over or taken % evaluate_every < chunk:
            with clock.timing("evaluate"):
                scores = collector.evaluate(_policies(state.pi, count), final_episodes if over else episodes)
            shared = {"step": taken, **clock.seconds()}
            columns = {
                "return": scores.mean(1),
                "train_return": [np.mean(some or [np.nan]) for some in recent],
                **metrics,
            }
            rows_now = [
                {"seed": seed, **variant, **shared, **{name: float(column[i]) for name, column in columns.items()}}
                for i, (seed, variant) in enumerate(zip(seeds, variants))
            ]
            rows += rows_now
            on_rows(rows_now)
        if over:
            break
    collector.close()
    return rows


class _Clock:
    """Where the time went."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.parts: dict[str, float] = defaultdict(float)

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.parts[part] += time.perf_counter() - begin

    def total(self) -> float:
        return time.perf_counter() - self.start

    def seconds(self) -> dict[str, float]:
        return {"seconds": self.total(), **{f"{part}_seconds": spent for part, spent in self.parts.items()}}


@jax.jit
def _fold(keys: Key, number: int) -> Key:
    return jax.vmap(lambda k: jax.random.fold_in(k, number))(keys)


def _policies(stacked: Policy, count: int) -> list[Policy]:
    """The members' policies with numpy arrays, to act on the host."""
    host = jax.tree.map(np.asarray, stacked)
    return [jax.tree.map(lambda x, i=i: x[i], host) for i in range(count)]


def host_maker(name: str) -> MakeEnv:
    """How worker processes make the environment of that name."""
    return partial(_make_host, name)


def _make_host(name: str) -> HostEnv:
    env = make_env(name)
    if not isinstance(env, HostEnv):
        raise ValueError(f"{name!r} lives on the device: only environments on the host can be stepped by workers")
    return env
