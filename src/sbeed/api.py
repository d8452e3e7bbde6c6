"""The agent as a library's user meets it: learn, predict, evaluate, save, load. The names are Stable-Baselines3's."""

import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Self

import gymnasium
import jax
import numpy as np

from sbeed.agents.knobs import with_fields
from sbeed.agents.registry import find
from sbeed.envs import spaces
from sbeed.envs.gym import make_gym
from sbeed.models.host import HostPolicy
from sbeed.training import files, rundir
from sbeed.training.progress import progress_bar as show_progress
from sbeed.training.run import Row, RunSpec, follow
from sbeed.training.sources import Env, OneEnv, spec_of
from sbeed.training.trainer import Rule, Trainer
from sbeed.types import EnvSpec

POLICIES = {"MlpPolicy": "mlp", "RbfPolicy": "rbf", "TabularPolicy": "table"}
PLOT_HINT = "it needs matplotlib: pip install 'sbeed[plot]'"
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


class SBEED:
    """Smoothed Bellman error embedding, on one environment.

    policy: "MlpPolicy", "RbfPolicy", "TabularPolicy", or None for the preset's own. env: a Gymnasium id or a name such
    as "jax:pendulum", a Gymnasium environment or vector environment, or a JAX environment. eval_env: where `evaluate`
    plays; without it, in another environment like `env`. behaviour: who acts while data are collected: "current" for
    the policy being learned, another agent for a fixed one, or a function from the observation (as the agent sees it)
    to an action in [-1, 1], or an integer. config_fields: any field of the config, over the preset's.
    """

    agent = find("sbeed")

    def __init__(
        self,
        policy: str | None,
        env: Env,
        *,
        preset: str = "default",
        seed: int = 0,
        eval_env: OneEnv | None = None,
        behaviour: "SBEED | Rule | str" = "current",
        noise: float = 0.0,
        **config_fields: Any,
    ):
        if policy is not None:
            if policy not in POLICIES:
                raise ValueError(f"policy: must be one of {', '.join(POLICIES)} or None, got {policy!r}")
            config_fields = {**config_fields, "policy": POLICIES[policy]}
        if not 0 <= seed < 2**32:
            raise ValueError(f"seed: must lie in [0, 2^32), got {seed}")
        task = read_task(env, noise)
        config = with_fields(self.agent.preset(preset, task.spec), config_fields)
        self._be(task, config, seed, preset)
        self._trainer: Trainer | None = self._make_trainer(env, eval_env, behaviour)

    def _be(self, task: Task, config: Any, seed: int, preset: str, steps: int = 0, state: Any = None) -> None:
        self.task, self.config, self.seed, self.preset = task, config, seed, preset
        self._rng = np.random.default_rng([seed, PREDICTION])
        self._steps_before, self._state = steps, state  # of an earlier life, from which this one was loaded
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
        a new directory for the curve, the metrics and the final model; only with it are evaluations made on the way.
        """
        if total_timesteps < 1:
            raise ValueError(f"total_timesteps: must be at least 1, got {total_timesteps}")
        trainer, proceed = self._training(), _as_function(callback, self)
        with ExitStack() as stack:
            show = stack.enter_context(show_progress(trainer, total_timesteps)) if progress_bar else lambda: None

            def on_progress(_: Trainer) -> bool:
                show()
                return proceed() is not False

            if out is None:
                follow(trainer, total_timesteps, evaluate_every=None, on_progress=on_progress)
            else:
                spec = RunSpec(
                    env=self.task.name or self.spec.name,
                    agent=self.agent.name,
                    preset=self.preset,
                    steps=total_timesteps,
                    noise=self.task.noise,
                    evaluate_every=eval_every,
                    episodes=eval_episodes,
                    final_episodes=final_episodes,
                )
                record(Path(out), spec, trainer, self.task, on_progress=on_progress)
        if out is not None and not draw_curve(Path(out)):
            warnings.warn(f"no {rundir.CURVE}: {PLOT_HINT}", stacklevel=2)
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
        if episodes < 1:
            raise ValueError(f"episodes: must be at least 1, got {episodes}")
        returns, lengths = self._training().evaluate(episodes)
        return Score(float(returns[0].mean()), float(returns[0].std()), returns[0].tolist(), lengths[0].tolist())

    @property
    def policy(self) -> HostPolicy:
        """What acts, in numpy, on observations as the agent sees them."""
        if self._trainer is not None:
            return self._trainer.policies()[0]
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
        self._steps_before, self._state = self.num_timesteps, self._learned()
        self.close()
        self.task = task
        self._trainer = self._make_trainer(env, eval_env, "current")
        self._trainer.load([self._state])

    def close(self) -> None:
        """Closes the environments that the agent made."""
        if self._trainer is not None:
            self._trainer.close()

    def _make_trainer(self, env: Env, eval_env: OneEnv | None, behaviour: Any) -> Trainer:
        if isinstance(behaviour, SBEED):
            behaviour = behaviour.policy
        elif behaviour == "current":
            behaviour = None
        elif not callable(behaviour):
            raise ValueError(f"behaviour: must be 'current', an agent or a function, got {behaviour!r}")
        shared = {"noise": self.task.noise, "eval_env": eval_env, "behaviour": behaviour}
        return Trainer(self.agent, env, self.config, seeds=[self.seed], **shared)

    def _training(self) -> Trainer:
        if self._trainer is None:
            raise ValueError("the agent was loaded without an environment: give it one with set_env")
        return self._trainer

    def _learned(self) -> Any:
        return self._state if self._trainer is None else self._trainer.member(0)

    # --------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """A directory of named tensors and a manifest. The data that it learned from are not in it."""
        about = describe(self.agent.name, self.task, self.preset, self.config, self.seed, self.num_timesteps)
        files.save(Path(path), self._learned(), about)

    @classmethod
    def load(cls, path: str | Path, env: Env | None = None) -> Self:
        """A saved agent, in `env` or in the environment whose name is in the file; without either it only predicts."""
        about = read_about(Path(path))
        if about.agent != cls.agent.name:
            raise files.DamagedModel(f"'{path}' holds an agent of another kind, {about.agent!r}")
        like = jax.eval_shape(lambda key: cls.agent.init(about.config, about.task.spec, key), jax.random.key(0))
        found = cls.__new__(cls)
        found._be(about.task, about.config, about.seed, about.preset, about.steps, files.load(Path(path), like))
        if env is not None:
            found.set_env(env)
        elif about.task.name is not None:
            found.set_env(about.task.name, noise=about.task.noise)
        return found


# ------------------------------------------------------------------------------------------------- runs and their files


def record(
    out: Path,
    spec: RunSpec,
    trainer: Trainer,
    task: Task,
    on_progress: Callable[[Trainer], bool | None] = lambda trainer: None,
) -> list[Row]:
    """Let a trainer take the spec's steps and leave a run's directory: settings, rows, events, every seed's model."""
    asked = {name: value for name, value in asdict(spec).items() if name != "fields"}
    settings = {**asked, "seed": trainer.seeds[0], "seeds": len(trainer.seeds), **_plain(trainer.config)}
    with rundir.RunDir(out, settings, trainer.seeds) as run:
        rows = follow(
            trainer,
            spec.steps,
            evaluate_every=spec.evaluate_every,
            episodes=spec.episodes,
            final_episodes=spec.final_episodes,
            on_rows=run.append,
            on_progress=on_progress,
        )
        for i, seed in enumerate(trainer.seeds):
            if i not in trainer.diverged:
                about = describe(trainer.agent.name, task, spec.preset, trainer.config, seed, trainer.step)
                files.save(run.model(seed), trainer.member(i), about)
    return rows


def draw_curve(out: Path) -> bool:
    """The learning curve of a run's directory, from its rows; False without matplotlib."""
    if find_spec("matplotlib") is None:
        return False
    from sbeed.experiments import plots

    figure = plots.learning_curves({out.name: rundir.read_rows(out)})
    figure.savefig(out / rundir.CURVE, dpi=160)
    return True


def read_task(env: Env, noise: float = 0.0) -> Task:
    """What there is to know of an environment; a ValueError if no agent can act in it."""
    if isinstance(env, str) and not env.startswith("jax:"):
        opened = make_gym(env)
        task = read_task(opened, noise)
        opened.close()
        return task._replace(name=env)
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


def describe(agent: str, task: Task, preset: str, config: Any, seed: int, steps: int) -> dict[str, Any]:
    """An `About` as plain data."""
    env = {
        **{"name": task.name, "noise": task.noise, "spec": asdict(task.spec)},
        "observation_space": spaces.to_json(task.observation_space),
        "action_space": spaces.to_json(task.action_space),
    }
    return {"agent": agent, "preset": preset, "seed": seed, "steps": steps, "env": env, "config": _plain(config)}


def read_about(path: Path) -> About:
    """The manifest of a saved model, checked: an agent that we know, a config that it accepts."""
    manifest = files.read_manifest(path)
    try:
        env = manifest["env"]
        spec = EnvSpec(**env["spec"])
        agent = find(manifest["agent"])
        config = with_fields(agent.preset("default", spec), manifest["config"])
        agent.check(config, spec)
        seen, done = (spaces.from_json(env[f"{kind}_space"]) for kind in ("observation", "action"))
        task = Task(spec, seen, done, env["name"], float(env["noise"]))
        return About(agent.name, task, str(manifest["preset"]), config, int(manifest["seed"]), int(manifest["steps"]))
    except (KeyError, TypeError, ValueError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise files.DamagedModel(f"'{path / files.MANIFEST}' is not a manifest of ours: {reason}") from None


def _plain(config: Any) -> dict[str, Any]:
    """The config as YAML and JSON know it: no tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}


def _as_function(callback: Any, agent: SBEED) -> Callable[[], bool | None]:
    """What to call after an iteration: a function of the agent, or `on_step()` of an object such as SB3's callbacks."""
    if callback is None:
        return lambda: None
    if not hasattr(callback, "on_step"):
        return lambda: callback(agent)
    if hasattr(callback, "init_callback"):
        callback.init_callback(agent)
    return callback.on_step
