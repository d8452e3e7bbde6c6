"""A Gymnasium environment by its name, the arguments and the wrappers that the user names. No file names any."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium
import yaml

from sbeed.envs.gym import make_gym


@dataclass(frozen=True)
class EnvMaker:
    """A function that makes the environment; it pickles, for worker processes.

    arguments: keywords of `gymnasium.make`. wrappers: module:Name, the first one innermost.
    """

    name: str
    arguments: tuple[tuple[str, Any], ...] = ()
    wrappers: tuple[str, ...] = ()

    def __call__(self, render_mode: str | None = None) -> gymnasium.Env:
        try:
            env = make_gym(self.name, render_mode=render_mode, **dict(self.arguments))
        except TypeError as error:  # of the class, which has no such argument
            raise ValueError(f"env_kwargs: {self.name} cannot be made with them ({error})") from error
        for place in self.wrappers:
            wrap = _found(place)
            try:
                env = wrap(env)
            except TypeError as error:
                raise ValueError(f"wrapper: {place} takes no environment alone ({error})") from error
            if not isinstance(env, gymnasium.Env):
                raise ValueError(f"wrapper: {place} makes a {type(env).__name__}, which is no Gymnasium environment")
        return env


def read_maker(name: str, arguments: Sequence[str], wrappers: Sequence[str]) -> EnvMaker:
    """Read what the user typed: `arguments` are key=value, where the value is YAML."""
    if name.startswith("jax:"):
        raise ValueError(f"env_kwargs: {name} takes no arguments and no wrappers: only a Gymnasium environment does")
    pairs = []
    for text in arguments:
        key, equals, value = text.partition("=")
        if not (equals and key.isidentifier()):
            raise ValueError(f"env_kwargs: expected key=value, got {text!r}")
        pairs.append((key, _value(value)))
    return EnvMaker(name, tuple(pairs), tuple(wrappers))


def _value(text: str) -> Any:
    try:
        return float(text) if "e" in text.lower() else yaml.safe_load(text)  # YAML takes 1e-3 for a word
    except ValueError:
        return yaml.safe_load(text)


def _found(place: str) -> Any:
    module, colon, name = place.partition(":")
    if not (colon and name.isidentifier()):
        raise ValueError(f"wrapper: expected module:Name, got {place!r}")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"wrapper: {place} cannot be imported ({error})") from error
