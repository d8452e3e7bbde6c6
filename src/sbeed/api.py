"""The agent as a library's user meets it: learn, predict, evaluate, save, load. The names are Stable-Baselines3's."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
import jax
import numpy as np

from sbeed.agents.base import Agent
from sbeed.agents.knobs import converted, with_fields
from sbeed.agents.registry import find
from sbeed.envs import spaces
from sbeed.envs.base import HostEnv, JaxEnv
from sbeed.envs.gym import make_gym
from sbeed.models.host import HostPolicy
from sbeed.training import files, rundir
from sbeed.training.interrupt import interruptible
from sbeed.training.progress import progress_bar as show_progress
from sbeed.training.run import Row, RunSpec, follow
from sbeed.training.sources import Env, OneEnv, spec_of
from sbeed.training.trainer import Rule, Trainer
from sbeed.types import EnvSpec

POLICIES = {"MlpPolicy": "mlp", "RbfPolicy": "rbf", "TabularPolicy": "table"}
PREDICTION = 3  # second word of the seed of `predict`'s draws; `training.collect` has the others


class Score(NamedTuple):
    """What the deterministic policy made of its evaluation episodes; std is over episodes."""

    mean_return: float
    std_return: float
    returns: list[float]
    lengths: list[int]


class Task(NamedTuple):
    """What an agent must know of an environment to act in it, and its name if it can be made by one."""

    spec: EnvSpec
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    name: str | None
    noise: float = 0.0


class Algorithm:
    """An agent of one kind, on one environment: what is said here holds for SBEED, PCL and all the others.

    policy: "MlpPolicy", "RbfPolicy", "TabularPolicy", or None for the preset's own. env: a Gymnasium id or a name such
    as "jax:pendulum", a Gymnasium environment or vector environment, or a JAX environment. eval_env: where `evaluate`
    plays; without it, in another environment like `env`. behaviour: who acts while data are collected: "current" for
    the policy being learned, another agent for a fixed one, or a function from the observation (as the agent sees it)
    to an action in [-1, 1], or an integer. config_fields: any field of the config, over the preset's.
    """

    agent: ClassVar[Agent]

    def __init__(
        self,
        policy: str | None,
        env: Env,
        *,
        preset: str = "default",
        seed: int = 0,
        eval_env: OneEnv | None = None,
        behaviour: "Algorithm | Rule | str" = "current",
        noise: float = 0.0,
        **config_fields: Any,
    ):
        task = read_task(env, noise)
        config = self.agent.preset(preset, task.spec)
        choices = POLICIES if hasattr(config, "policy") else ["MlpPolicy"]
        if policy not in (None, *choices):
            raise ValueError(f"policy: must be one of {', '.join(choices)} or None, got {policy!r}")
        if policy is not None and choices is POLICIES:
            config_fields = {**config_fields, "policy": POLICIES[policy]}
        config = with_fields(config, config_fields)
        self._be(About(self.agent.name, task, preset, config, _count("seed", seed, low=0), steps=0), behaviour)
        self._trainer: Trainer | None = self._make_trainer(env, task, eval_env)

    def _be(self, about: "About", behaviour: Any = "current", state: Any = None) -> None:
        """state: what was learned in an earlier life, if this one was loaded from it; the trainer comes when needed."""
        _, self.task, self.preset, self.config, self.seed, self._steps_before = about
        self._behaviour, self._state = behaviour, state
        self._rng = np.random.default_rng([self.seed, PREDICTION])
        self._trainer = None

    # --------------------------------------------------------------------------------------------- learning

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Any = None,
        progress_bar: bool = False,
        out: str | Path | None = None,
        eval_every: int = 20_000,
        eval_episodes: int = 5,
        final_episodes: int = 20,
    ) -> Self:
        """Take exactly that many more steps in the environment, and learn.

        callback: called with the agent after every iteration, or an object with `on_step()`; False ends the call. out:
        a new directory for the curve, the metrics and the final model; only with it are evaluations made on the way,
        and Ctrl-C then ends the call in good order: what was learned until then lies there too.
        """
        steps = _count("total_timesteps", total_timesteps)
        spec = RunSpec(
            env=self.task.name or self.spec.name,
            agent=self.agent.name,
            preset=self.preset,
            steps=steps,
            noise=self.task.noise,
            evaluate_every=_count("eval_every", eval_every),
            episodes=_count("eval_episodes", eval_episodes),
            final_episodes=_count("final_episodes", final_episodes),
        )
        trainer, proceed = self._training(), _as_function(callback, self)
        with ExitStack() as stack:
            show = stack.enter_context(show_progress(trainer, steps)) if progress_bar else lambda: None

            def on_progress(_: Trainer) -> bool:
                show()
                return proceed() is not False

            if out is None:
                follow(trainer, steps, evaluate_every=None, on_progress=on_progress)
            else:
                record(Path(out), spec, trainer, self.task, earlier=self._steps_before, on_progress=on_progress)
        return self

    @property
    def num_timesteps(self) -> int:
        """Environment steps that the agent has learned from, in earlier lives too."""
        return self._steps_before + (self._trainer.step if self._trainer else 0)

    # --------------------------------------------------------------------------------------------- acting

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The action for one observation or for a batch, as the environment itself takes it; `state` comes back."""
        seen, policy = spaces.encode(self.observation_space, observation), self.policy
        raw = policy.mode(seen) if deterministic else policy.draw(seen, self._rng)
        return spaces.decode(self.action_space, policy.squash(raw)), state

    def evaluate(self, episodes: int = 20) -> Score:
        """The deterministic policy on episodes that training never sees, the same ones every time."""
        returns, lengths = self._training().evaluate(_count("episodes", episodes))
        return Score(float(returns[0].mean()), float(returns[0].std()), returns[0].tolist(), lengths[0].tolist())

    @property
    def policy(self) -> HostPolicy:
        """What acts, in numpy, on observations as the agent sees them."""
        return self._loaded_policy if self._trainer is None else self._trainer.policies()[0]

    @cached_property
    def _loaded_policy(self) -> HostPolicy:
        return self.agent.deployed(self.config, self._state).on_host()

    # --------------------------------------------------------------------------------------------- the environment

    @property
    def spec(self) -> EnvSpec:
        return self.task.spec

    @property
    def observation_space(self) -> gymnasium.Space:
        return self.task.observation_space

    @property
    def action_space(self) -> gymnasium.Space:
        return self.task.action_space

    def set_env(self, env: Env, *, eval_env: OneEnv | None = None, noise: float = 0.0) -> None:
        """Go on in another environment with the same spaces. The data of the one before are left behind."""
        task = read_task(env, noise)
        for name in ("observation_size", "action_kind", "action_size"):
            here, there = getattr(self.spec, name), getattr(task.spec, name)
            if here != there:
                raise ValueError(f"env: {task.spec.name} has {name} {there}, the agent was made for {here}")
        trainer = self._make_trainer(env, task, eval_env)
        learned = self._learned()
        if learned.iteration > 0:  # else the warm-up is still to come
            trainer.load([learned])
        self._steps_before = self.num_timesteps
        self.close()
        self.task, self._trainer = task, trainer

    def close(self) -> None:
        """Closes the environments that the agent made."""
        if self._trainer is not None:
            self._trainer.close()

    def _make_trainer(self, env: Env, task: Task, eval_env: OneEnv | None) -> Trainer:
        behaviour = self._behaviour
        if isinstance(behaviour, Algorithm):
            behaviour = behaviour.policy
        elif behaviour == "current":
            behaviour = None
        elif not callable(behaviour):
            raise ValueError(f"behaviour: must be 'current', an agent or a function, got {behaviour!r}")
        shared = {"noise": task.noise, "eval_env": eval_env, "behaviour": behaviour}
        return Trainer(self.agent, env, self.config, seeds=[self.seed], **shared)

    def _training(self) -> Trainer:
        """The trainer; that of a loaded agent is made when first needed, for to predict it needs no environment."""
        if self._trainer is None:
            name = self.task.name
            if name is None:
                raise ValueError("the agent was loaded without an environment: give it one with set_env")
            if ":" in name and not name.startswith("jax:"):
                raise ValueError(
                    f"env: {name!r} would import a module, which no file may do: name it yourself (set_env)"
                )
            self.set_env(name, noise=self.task.noise)
            assert self._trainer is not None
        return self._trainer

    def _learned(self) -> Any:
        return self._state if self._trainer is None else self._trainer.member(0)

    # --------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """A directory of named tensors and a manifest. The data that it learned from are not in it."""
        about = About(self.agent.name, self.task, self.preset, self.config, self.seed, self.num_timesteps)
        files.save(Path(path), self._learned(), describe(about))

    @classmethod
    def load(cls, path: str | Path, env: Env | None = None) -> Self:
        """A saved agent, for `env`, or for the environment that its file names; without either it only predicts.

        `Algorithm.load` takes agents of every kind.
        """
        about = read_about(Path(path))
        kind = ALGORITHMS[about.agent]
        if not issubclass(kind, cls):
            raise files.DamagedModel(f"'{path}' holds an agent of another kind, {about.agent!r}")
        like = jax.eval_shape(lambda key: kind.agent.init(about.config, about.task.spec, key), jax.random.key(0))
        found = kind.__new__(kind)
        found._be(about, state=files.load(Path(path), like))
        if env is not None:
            found.set_env(env)
        return found


class SBEED(Algorithm):
    """Smoothed Bellman error embedding: V and pi in the primal, rho in the dual."""

    agent = find("sbeed")


class PCL(Algorithm):
    """Path consistency learning: SBEED without a dual. The default is its trust-region form, `paper` the plain one."""

    agent = find("pcl")


class TRPO(Algorithm):
    """Trust region policy optimisation: on-policy natural gradients with a line search; NPG by preset="npg"."""

    agent = find("trpo")


class DualAC(Algorithm):
    """The dual actor-critic: V, a distribution of states and a policy in the Lagrangian of the Bellman equation."""

    agent = find("dual_ac")


class DDPG(Algorithm):
    """Deep deterministic policy gradient: a deterministic policy, explored around. Boxes of actions only."""

    agent = find("ddpg")


class SAC(Algorithm):
    """Soft actor-critic, its second version: twin critics and an adapted temperature. Boxes of actions only."""

    agent = find("sac")


ALGORITHMS: dict[str, type[Algorithm]] = {kind.agent.name: kind for kind in (SBEED, PCL, TRPO, DualAC, DDPG, SAC)}


# ------------------------------------------------------------------------------------------------- runs and their files


def record(
    out: Path,
    spec: RunSpec,
    trainer: Trainer,
    task: Task,
    *,
    earlier: int = 0,
    on_progress: Callable[[Trainer], bool | None] = lambda trainer: None,
) -> list[Row]:
    """Let a trainer take the spec's steps and leave a run's directory: settings, rows, events, models and the curve.

    earlier: steps of the agent before this trainer's. Ctrl-C ends the run as if its steps were done, and is then passed
    on.
    """
    asked = {name: value for name, value in asdict(spec).items() if name != "fields"}
    settings = {**asked, "seed": trainer.seeds[0], "seeds": len(trainer.seeds), **_plain(trainer.config)}
    if task.name is None:
        trainer.evaluate(
            spec.episodes
        )  # an environment that is an object may have no other to evaluate in: better known now
    kept = f"what was learned until then lies in '{out}'"
    with interruptible(kept) as interrupted, rundir.RunDir(out, settings, trainer.seeds) as run:
        rows = follow(
            trainer,
            spec.steps,
            evaluate_every=spec.evaluate_every,
            episodes=spec.episodes,
            final_episodes=spec.final_episodes,
            on_rows=run.append,
            on_progress=lambda trainer: on_progress(trainer) is not False and not interrupted(),
        )
        for i, seed in enumerate(trainer.seeds):
            if i not in trainer.diverged:
                about = About(trainer.agent.name, task, spec.preset, trainer.config, seed, earlier + trainer.step)
                files.save(run.model(seed), trainer.member(i), describe(about))
        _draw_curve(out, rows)
    return rows


def _draw_curve(out: Path, rows: list[Row]) -> None:
    if find_spec("matplotlib") is None:
        warnings.warn(f"no {rundir.CURVE}: it needs matplotlib: pip install 'sbeed[plot]'", stacklevel=4)
        return
    from sbeed.experiments import plots

    plots.learning_curves({out.resolve().name: rows}).savefig(out / rundir.CURVE, dpi=160)


def read_task(env: Env, noise: float = 0.0) -> Task:
    """What there is to know of an environment; a ValueError if no agent can act in it."""
    if isinstance(env, str) and not env.startswith("jax:"):
        opened = make_gym(env)
        task = read_task(opened, noise)
        opened.close()
        return task._replace(name=env)
    if not isinstance(env, str | gymnasium.Env | gymnasium.vector.VectorEnv | JaxEnv | HostEnv) or isinstance(
        env, type
    ):
        raise ValueError(f"env: must be a name, a Gymnasium environment or vector, or a JAX environment, got {env!r}")
    spec = spec_of(env, noise)
    return Task(spec, *spaces.of_env(env, spec), env if isinstance(env, str) else None, noise)


class About(NamedTuple):
    """What a saved model's manifest says of it."""

    agent: str
    task: Task
    preset: str
    config: Any
    seed: int
    steps: int


def describe(about: About) -> dict[str, Any]:
    """The same as plain data."""
    agent, task, preset, config, seed, steps = about
    env = {
        **{"name": task.name, "noise": task.noise, "spec": asdict(task.spec)},
        "observation_space": spaces.to_json(task.observation_space),
        "action_space": spaces.to_json(task.action_space),
    }
    return {"agent": agent, "preset": preset, "seed": seed, "steps": steps, "env": env, "config": _plain(config)}


def read_about(path: Path) -> About:
    """The manifest of a saved model, checked: an agent that we know, a config that it accepts, spaces that fit."""
    manifest = files.read_manifest(path)
    try:
        env = manifest["env"]
        spec, name = EnvSpec(**env["spec"]), env["name"]
        seen, done = (spaces.from_json(env[f"{kind}_space"]) for kind in ("observation", "action"))
        sizes = [gymnasium.spaces.flatdim(space) for space in (seen, done)]
        if [spec.observation_size, spec.action_size] != sizes or not isinstance(name, str | None):
            raise ValueError("its environment contradicts itself")
        agent = find(manifest["agent"])
        config = with_fields(agent.preset("default", spec), manifest["config"])
        agent.check(config, spec)
        seed, steps = (_count(word, manifest[word], low=0) for word in ("seed", "steps"))
        return About(
            agent.name, Task(spec, seen, done, name, float(env["noise"])), str(manifest["preset"]), config, seed, steps
        )
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise files.DamagedModel(f"'{path / files.MANIFEST}' is not a manifest of ours: {reason}") from None


def _plain(config: Any) -> dict[str, Any]:
    """The config as YAML and JSON know it: no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}


def _count(name: str, value: Any, low: int = 1) -> int:
    """numpy's whole numbers and 1e6 are taken for what they are."""
    number = converted(name, value, int)
    if not low <= number < 2**32:
        raise ValueError(f"{name}: must lie in [{low}, 2^32), got {number}")
    return number


def _as_function(callback: Any, agent: Algorithm) -> Callable[[], bool | None]:
    """What to call after an iteration: a function of the agent, or `on_step()`, as SB3's CheckpointCallback has it."""
    if callback is None:
        return lambda: None
    if not hasattr(callback, "on_step"):
        return lambda: callback(agent)
    if hasattr(callback, "init_callback"):
        callback.init_callback(agent)
    return callback.on_step
