"""Environments that give a number that is not finite."""

import math
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import load_file

from benchmarks.reliability import runs
from benchmarks.reliability.trial import Broken, Trial, attempt, require
from sbeed.collect.episode import EVALUATION, TRAINING, episode_seed
from sbeed.envs.base import EnvironmentFault, JaxEnv, Step
from sbeed.envs.classic import Pendulum
from sbeed.training import compiled_steps
from sbeed.types import Array, EnvSpec

NAME = "not_finite"
MUST = "the run stops, environment, step and field are named, no checkpoint holds such a number"
COUNT = 100
LIMIT = None
ABOUT = """\
An observation or a reward becomes NaN, inf, -inf, or a reward too large for the replay's float32, at a random step or
reset of training or of an evaluation, in an environment on the host (through the command line, exit code 3), in a
Gymnasium vector, or in a JAX environment. The message must say which environment, which field and which step; every
number in the files left behind must be finite. Seconds: of the whole run until then.
"""

LENGTH = 20  # steps of an episode
ASKED = {"evaluate_every": 24, "episodes": 2, "final_episodes": 2, "checkpoint_every": 16}
STEPS = 60


class Poison(NamedTuple):
    kind: str  # "host", "vector" or "jax"
    purpose: int  # TRAINING or EVALUATION
    field: str
    value: float
    episode: int  # from 0
    step: int  # of it; 0 is its reset


def draw(rng: random.Random) -> Poison:
    kind = rng.choice(("host", "host", "vector", "jax", "jax"))
    purpose = rng.choice((TRAINING, TRAINING, EVALUATION)) if kind != "vector" else TRAINING
    field = rng.choice(("observation", "reward"))
    value = rng.choice((math.nan, math.inf, -math.inf, *([1e300] if field == "reward" and kind == "host" else [])))
    step = rng.randint(0 if field == "observation" else 1, LENGTH)
    return Poison(kind, purpose, field, value, rng.randrange(2), step)


def trials(seeds: Sequence[int]) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory() as place:
        for seed in seeds:
            poison = draw(random.Random(seed))
            when = "training" if poison.purpose == TRAINING else "evaluation"
            where = f"episode {poison.episode + 1}, step {poison.step}"
            what = f"{poison.kind} {poison.field} in {when}, {poison.value} in {where}"
            yield attempt(what, seed, lambda poison=poison, seed=seed: _stopped(poison, Path(place) / str(seed)))


def _stopped(poison: Poison, run: Path) -> None:
    message = {"host": _on_host, "vector": _in_vector, "jax": _on_device}[poison.kind](poison, run)
    for part in (f"{_name(poison)}: ", f"{poison.field} is not finite", _place(poison)):
        require(part in message, f"{part!r} is not in {message!r}")
    require("\n" not in message.strip(), f"more than one line: {message}")
    for path in run.rglob("*.safetensors"):
        for name, tensor in load_file(path).items():
            require(bool(np.isfinite(tensor).all()), f"{path.name}: {name} is not finite")


def _name(poison: Poison) -> str:
    return "jax:poisoned" if poison.kind == "jax" else "Poisoned-v0"


def _place(poison: Poison) -> str:
    """As the message must tell it."""
    evaluation = " of the evaluation" if poison.purpose == EVALUATION else ""
    if poison.kind == "host" or evaluation:
        return f" at step {poison.step} of episode {poison.episode + 1}{evaluation}"
    if poison.kind == "vector":
        # A step on which Gymnasium's vector only resets is one of its steps.
        return f" at step {poison.episode * (LENGTH + 1) + poison.step}"
    step = poison.episode * LENGTH + poison.step
    return f" at step {step} of the run" if poison.step else f" at the reset before step {step + 1} of the run"


# ------------------------------------------------------------------------------------------------- on the host


class Poisoned(gymnasium.Wrapper):
    """An environment with episodes that are known by their seeds."""

    def __init__(self, poison: Poison):
        super().__init__(gymnasium.make("Pendulum-v1", max_episode_steps=LENGTH))
        self.poison, self.taken, self.is_the_one = poison, 0, False
        self.episodes = -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.taken, self.episodes = 0, self.episodes + 1
        chosen = episode_seed(0, self.poison.purpose, self.poison.episode)
        # A vector seeds the first episode alone.
        self.is_the_one = seed == chosen if self.poison.kind == "host" else self.episodes == self.poison.episode
        obs, info = super().reset(seed=seed, options=options)
        return self._poisoned("observation", obs), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.taken += 1
        obs, reward, terminated, truncated, info = super().step(action)
        return self._poisoned("observation", obs), self._poisoned("reward", reward), terminated, truncated, info

    def _poisoned(self, field: str, number: Any) -> Any:
        now = self.is_the_one and (field, self.taken) == (self.poison.field, self.poison.step)
        return number + self.poison.value if now else number


def _on_host(poison: Poison, run: Path) -> str:
    with _registered(poison):
        said = runs.sbeed(*runs.command(run, "Poisoned-v0", STEPS, "--episodes", "2"))
    require(said.code == 3, f"exit code {said.code}: {said.err}")
    return said.err


def _in_vector(poison: Poison, run: Path) -> str:
    from sbeed import SBEED

    with _registered(poison):
        envs = gymnasium.make_vec("Poisoned-v0", 2, vectorization_mode="sync")
        try:
            eval_env = gymnasium.make("Pendulum-v1")
            return _fault_of(
                lambda: SBEED(None, envs, eval_env=eval_env, **runs.FIELDS).learn(4 * STEPS, out=run, **ASKED)
            )
        finally:
            envs.close()


@contextmanager
def _registered(poison: Poison) -> Iterator[None]:
    gymnasium.register("Poisoned-v0", lambda **_: Poisoned(poison))
    try:
        yield
    finally:
        del gymnasium.registry["Poisoned-v0"]


# ------------------------------------------------------------------------------------------------- on the device


class PoisonedState(NamedTuple):
    inner: Any
    poisoned: Array  # the episode


class PoisonedPendulum(Pendulum):
    """What is poisoned is data, so that all trials share one program. Episodes are known by their keys."""

    key: Array  # as two numbers
    value: Array
    step_: Array
    in_reward: Array

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec("jax:poisoned", observation_size=3, action_kind="box", action_size=1, time_limit=LENGTH)

    def reset(self, key: Array) -> PoisonedState:
        return PoisonedState(super().reset(key), (jax.random.key_data(key) == self.key).all())

    def observe(self, state: PoisonedState) -> Array:
        now = state.poisoned & (state.inner.t == self.step_) & ~self.in_reward
        return super().observe(state.inner) + jnp.where(now, self.value, 0)

    def step(self, state: PoisonedState, action: Array, key: Array) -> Step:
        after = Pendulum().step(state.inner, action, key)
        reached = PoisonedState(after.state, state.poisoned)
        now = state.poisoned & (after.state.t == self.step_) & self.in_reward
        reward = after.reward + jnp.where(now, self.value, 0)
        return Step(reached, self.observe(reached), reward, after.terminated, after.state.t >= LENGTH)


def _on_device(poison: Poison, run: Path) -> str:
    from sbeed import SBEED

    unused = jnp.zeros(2, jnp.uint32)
    sound, bad = (_poisoned_pendulum(poison, key) for key in (unused, _key_of_reset(poison)))
    env, eval_env = (bad, sound) if poison.purpose == TRAINING else (sound, bad)
    return _fault_of(lambda: SBEED(None, env, eval_env=eval_env, **runs.FIELDS).learn(STEPS, out=run, **ASKED))


def _poisoned_pendulum(poison: Poison, key: Array) -> JaxEnv:
    numbers = (jnp.float32(poison.value), jnp.int32(poison.step), jnp.array(poison.field == "reward"))
    return PoisonedPendulum(key, *numbers)


def _key_of_reset(poison: Poison) -> Array:
    """As the run derives it."""
    keys = compiled_steps.keys(jax.random.key(0))
    if poison.purpose == TRAINING:
        key = jax.random.fold_in(jax.random.fold_in(keys.env, 1), poison.episode)
    else:
        key, _ = jax.random.split(jax.random.fold_in(keys.evaluation, poison.episode))
    return jax.random.key_data(key)


def _fault_of(learn: Any) -> str:
    try:
        learn()
    except EnvironmentFault as fault:
        return str(fault)
    raise Broken("the run did not stop")
