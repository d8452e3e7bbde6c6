"""The interface of every agent: pure functions of a config, a state and a replay."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import jax

from sbeed.data.replay import Replay
from sbeed.models.policies import Policy
from sbeed.types import Array, EnvSpec, Key

# A registered dataclass: floats may be traced, the other fields are static. The trainer reads warmup,
# steps_per_iteration, trajectories_per_iteration, replay_capacity, on_policy and overlap.
Config = Any
State = Any  # a pytree of all that learning changes; its `iteration` counts the rounds


class Agent(NamedTuple):
    """One algorithm. The functions below `check` are called under `jit` and `vmap`."""

    name: str
    presets: Mapping[str, Callable[[EnvSpec], Config]]  # named settings; "default" is one of them
    check: Callable[[Config, EnvSpec], None]  # a ValueError in one line: the field, what it may be, what was given
    init: Callable[[Config, EnvSpec, Key], State]
    prepare: Callable[[Config, EnvSpec, State, Replay, Key], State]  # once, when the warm-up's data are there
    iterate: Callable[[Config, EnvSpec, State, Replay, Key], tuple[State, dict[str, Array]]]  # N updates, mean metrics
    actor: Callable[[Config, State], Policy]  # the policy that collects data: pi with its normaliser
    deployed: Callable[[Config, State], Policy]  # the policy that is evaluated and predicts

    def __hash__(self) -> int:
        return hash(self.name)  # names are unique, and a dict has none

    def preset(self, name: str, spec: EnvSpec) -> Config:
        """The preset's config for this environment; an unknown name is a ValueError that lists the presets."""
        if name not in self.presets:
            raise ValueError(f"preset: must be one of {', '.join(self.presets)}, got {name!r}")
        return self.presets[name](spec)


def traced_floats(config: type) -> type:
    """Decorate a config: its float fields may be traced, so that members may differ in them; the rest is static."""
    floats = [f.name for f in fields(config) if f.type in (float, "float")]
    static = [f.name for f in fields(config) if f.name not in floats]
    return jax.tree_util.register_dataclass(config, data_fields=floats, meta_fields=static)
