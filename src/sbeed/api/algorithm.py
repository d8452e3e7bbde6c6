"""The base of the public agents: learn, fit, predict, evaluate, save, load, as Stable-Baselines3 names them."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import gymnasium
import numpy as np

from sbeed.agents.base import Agent
from sbeed.agents.configs import check_names
from sbeed.agents.knobs import whole_number
from sbeed.agents.registry import configured
from sbeed.api.parameters import replaced
from sbeed.bridge.callbacks import listener
from sbeed.bridge.training_env import training_env
from sbeed.data.dataset import Dataset
from sbeed.envs import spaces
from sbeed.envs.task import Env, OneEnv, Task, check_fits, check_imports_nothing, read_task
from sbeed.envs.vec_env import VecEnv, as_env
from sbeed.models.host import HostPolicy
from sbeed.storage.models import ModelCard, load_model, save_model
from sbeed.storage.run_dir import RunDir
from sbeed.storage.tensors import DamagedModel, named_tensors
from sbeed.training.experience import Rule
from sbeed.training.interrupt import interruptible
from sbeed.training.logger import Logger
from sbeed.training.loop import run_loop
from sbeed.training.ope import ValueEstimate, estimate_value
from sbeed.training.progress_bar import progress_bar as show_progress
from sbeed.training.run import RunSpec, in_rounds
from sbeed.training.session import is_finished, model_in, record, restore
from sbeed.training.trainer import Trainer
from sbeed.types import EnvSpec

POLICIES = {"MlpPolicy": "mlp", "RbfPolicy": "rbf", "TabularPolicy": "table"}
PREDICTION = 3  # second word of the seed of `predict`'s draws; `training.actors` has the others

A = TypeVar("A", bound="Algorithm")


class Score(NamedTuple):
    """Returns and lengths of evaluation episodes of the deterministic policy; std is over episodes."""

    mean_return: float
    std_return: float
    returns: list[float]
    lengths: list[int]


class Algorithm:
    """Base class of SBEED, PCL and the other agents: one agent on one environment.

    policy: "MlpPolicy", "RbfPolicy", "TabularPolicy", or None for the preset's own.
    env: a Gymnasium id, a name such as "jax:pendulum", a Gymnasium environment or vector environment, a function that
    makes a Gymnasium environment, a VecEnv of Stable-Baselines3, or a JAX environment. Without one, the agent learns
    from a dataset alone (`fit`) and takes the dataset's spaces.
    preset: the settings to start from. seed: of all that is random; None draws one. config_fields: fields of the config
    that replace the preset's.
    eval_env: the environment of `evaluate`; by default another one like `env`.
    behaviour: the policy that collects data: "current" for the one being learned, another agent, or a function from
    the observation (as the agent sees it) to an action in [-1, 1], or to an integer.
    noise: standard deviation of noise added to every transition of a Gymnasium environment.
    """

    agent: ClassVar[Agent]
    config: Any  # each agent's class says which

    def __init__(
        self,
        policy: str | None = None,
        env: Env | VecEnv | None = None,
        *,
        preset: str = "default",
        seed: int | None = 0,
        eval_env: OneEnv | None = None,
        behaviour: "Algorithm | Rule | str" = "current",
        noise: float = 0.0,
        **config_fields: Any,
    ):
        seed = secrets.randbits(32) if seed is None else whole_number("seed", seed, low=0)
        self._asked = policy, preset, seed, behaviour, config_fields
        self._task: Task | None = None
        self._trainer: Trainer | None = None
        self.logger: Any = Logger()
        if env is not None:
            given = as_env(env)
            self._settle(read_task(given, noise))
            self._trainer = self._make_trainer(given, self.task, eval_env)

    def _settle(self, task: Task) -> None:
        """Build the config now that the environment is known."""
        policy, preset, seed, behaviour, config_fields = self._asked
        config = configured(self.agent.name, preset, task.spec, config_fields)
        choices = POLICIES if hasattr(config, "policy") else ["MlpPolicy"]
        if policy in POLICIES and policy not in choices:
            check_names(self.agent.name, preset, ["policy"])
        if policy not in (None, *choices):
            raise ValueError(f"policy: must be one of {', '.join(choices)} or None, got {policy!r}")
        if policy is not None and choices is POLICIES:
            config = replace(config, policy=POLICIES[policy])
        self._be(ModelCard(self.agent.name, task, preset, config, seed, steps=0), behaviour)

    def _be(self, card: ModelCard, behaviour: Any = "current", state: Any = None) -> None:
        """Set all attributes; the trainer is made when it is needed.   state: the learned state of a loaded agent"""
        _, task, self.preset, self.config, self.seed, self._steps_before = card
        self._task = task
        self._behaviour, self._state = behaviour, state
        self._rng = np.random.default_rng([self.seed, PREDICTION])
        self._trainer = None

    def __repr__(self) -> str:
        if self._task is None:
            return f"{type(self).__name__}(no environment yet)"
        env = self._task.name or self.spec.name
        told = f"preset={self.preset!r}, seed={self.seed}, num_timesteps={self.num_timesteps}"
        return f"{type(self).__name__}({env!r}, {told})"

    @property
    def task(self) -> Task:
        if self._task is None:
            raise ValueError("the agent has no environment yet: make it with one, or fit it to a dataset")
        return self._task

    # --------------------------------------------------------------------------------------------- learning

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int = 10,
        *,
        progress_bar: bool = False,
        out: str | Path | None = None,
        evaluate_every: int = 20_000,
        episodes: int = 5,
        final_episodes: int = 20,
        checkpoint_every: int = 20_000,
        resume: bool = False,
        restart_episodes: bool = False,
    ) -> Self:
        """Take exactly `total_timesteps` more steps in the environment, and learn from them.

        callback: a function of the agent, called after every iteration; callbacks of Stable-Baselines3, called for
        every environment step; or a list of these. A falsy answer other than None ends the call (docs/callbacks.md).
        log_interval: iterations between two rows of `logger`; 0: none. out: a new directory for the curve, the metrics
        and the final model. Evaluations and checkpoints (`checkpoint_every` 0: none) are made only with it, and Ctrl-C
        and SIGTERM then save what was learned before they end the call. resume: continue the run in `out` up to
        `total_timesteps` in all, as if it had never stopped; construct and call the agent as before.
        restart_episodes: continue with new episodes, for an environment that is not deterministic, so that its
        unfinished episodes cannot be replayed.
        """
        spec = RunSpec(
            env=self.task.name or self.spec.name,
            agent=self.agent.name,
            preset=self.preset,
            steps=whole_number("total_timesteps", total_timesteps),
            noise=self.task.noise,
            evaluate_every=whole_number("evaluate_every", evaluate_every),
            episodes=whole_number("episodes", episodes),
            final_episodes=whole_number("final_episodes", final_episodes),
            checkpoint_every=whole_number("checkpoint_every", checkpoint_every, low=0),
        )
        if self._trainer is not None and self._trainer.data is not None:  # drop the dataset of an earlier `fit`
            self._leave()
        log_interval = whole_number("log_interval", log_interval, low=0)
        return self._run(self._training(), spec, callback, log_interval, progress_bar, out, resume, restart_episodes)

    def fit(
        self,
        dataset: Dataset,
        updates: int,
        *,
        eval_env: OneEnv | None = None,
        callback: Any = None,
        log_interval: int = 10,
        progress_bar: bool = False,
        out: str | Path | None = None,
        evaluate_every: int = 20_000,
        episodes: int = 5,
        final_episodes: int = 20,
        checkpoint_every: int = 20_000,
        resume: bool = False,
    ) -> Self:
        """Make this many updates, rounded up to whole rounds, from a fixed dataset; no environment is needed.

        eval_env: the environment of `evaluate` and of the evaluations in `out`; by default the one that the agent was
        constructed with, if any. `evaluate_every`, `checkpoint_every` and `num_timesteps` count updates from then on.
        The other arguments are those of `learn`; a checkpoint refers to the dataset by its SHA-256.
        """
        if self._task is None:
            self._settle(dataset.task(eval_env if isinstance(eval_env, str) else None))
        where = eval_env if eval_env is not None else self.task.name
        check_fits("dataset", dataset.spec, self.spec)
        trainer = Trainer(self.agent, dataset, self.config, seeds=[self.seed], eval_env=where)
        learned = self._learned()
        if learned is not None and learned.iteration > 0:
            trainer.load([learned])
        self._steps_before = self.num_timesteps
        self.close()
        self._trainer = trainer
        spec = RunSpec(
            env=where if isinstance(where, str) else "",
            agent=self.agent.name,
            preset=self.preset,
            data=trainer.data,
            steps=in_rounds(whole_number("updates", updates), self.config),
            evaluate_every=whole_number("evaluate_every", evaluate_every),
            episodes=whole_number("episodes", episodes),
            final_episodes=whole_number("final_episodes", final_episodes),
            checkpoint_every=whole_number("checkpoint_every", checkpoint_every, low=0),
        )
        log_interval = whole_number("log_interval", log_interval, low=0)
        return self._run(trainer, spec, callback, log_interval, progress_bar, out, resume)

    def _run(
        self,
        trainer: Trainer,
        spec: RunSpec,
        callback: Any,
        log_interval: int,
        progress_bar: bool,
        out: str | Path | None,
        resume: bool,
        restart_episodes: bool = False,
    ) -> Self:
        if resume and out is None:
            raise ValueError("resume: requires the directory of the run (out)")
        if restart_episodes and not resume:
            raise ValueError("restart_episodes: requires resume: only a resumed run has unfinished episodes")
        steps, heard, iterations = spec.steps, listener(callback, self, trainer), count(1)
        with ExitStack() as stack:
            run = None if out is None else stack.enter_context(RunDir(Path(out), resume=resume))
            past, earlier, goal = None, self._steps_before, trainer.step + steps
            if run is not None and run.goes_on:
                past = restore(run, trainer, asked=spec, restart_episodes=restart_episodes)
                goal = past.first + steps
                if is_finished(run.path, trainer.seeds, goal, earlier + goal):
                    return self
            show = stack.enter_context(show_progress(trainer, goal - trainer.step)) if progress_bar else lambda: None

            def on_progress(_: Trainer) -> bool:
                show()
                goes_on = heard.hear()
                if log_interval and next(iterations) % log_interval == 0:
                    self._log()
                return goes_on

            heard.start(earlier + goal)

            if run is None:
                with interruptible("the agent keeps what it learned; `learn` goes on") as interrupted:
                    proceed = lambda trainer: on_progress(trainer) and not interrupted()
                    run_loop(trainer, steps, evaluate_every=None, on_progress=proceed)
            else:
                record(run, spec, trainer, self.task, earlier=earlier, past=past, on_progress=on_progress)
            heard.end()
        return self

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers of the last iteration; those of the updates are missing before the first one."""
        if self._trainer is None:
            return {}
        recent = self._trainer.recent[0]
        returns = {"train_return": float(np.mean(recent))} if recent else {}
        counted = {"iteration": self._trainer.iteration, "episodes": self._trainer.episodes[0]}
        return {**counted, **returns, **{name: float(x[0]) for name, x in self._trainer.metrics.items()}}

    @property
    def last_steps(self) -> int:
        """Steps of the last iteration; updates during `fit`."""
        return self._trainer.taken if self._trainer else 0

    @property
    def recent_returns(self) -> list[float]:
        """Returns of the last training episodes, at most 20, the newest last."""
        return list(self._trainer.recent[0]) if self._trainer else []

    def get_env(self) -> Any:
        """The Gymnasium environment, vector or VecEnv that is stepped; of a JAX environment its spaces alone."""
        return training_env(self._training(), self)

    def set_logger(self, logger: Any) -> None:
        """Let this logger have the rows: a `Logger`, or one of Stable-Baselines3."""
        if not (hasattr(logger, "record") and hasattr(logger, "dump")):
            raise ValueError(f"logger: must have record(name, value) and dump(step), got {logger!r}")
        self.logger = logger

    def _log(self) -> None:
        for name, value in self.metrics.items():
            self.logger.record(name, value)
        self.logger.dump(self.num_timesteps)

    @property
    def num_timesteps(self) -> int:
        """Environment steps that the agent has learned from, those before a load included; updates after `fit`."""
        return self._steps_before + (self._trainer.step if self._trainer else 0)

    # --------------------------------------------------------------------------------------------- acting

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
    ) -> tuple[Any, Any]:
        """The action for one observation or a batch, in the environment's own terms, and `state` unchanged."""
        seen, policy = spaces.encode(self.observation_space, observation), self.policy
        raw = policy.mode(seen) if deterministic else policy.draw(seen, self._rng)
        return spaces.decode(self.action_space, policy.squash(raw)), state

    def evaluate(self, episodes: int = 20) -> Score:
        """Score the deterministic policy on episodes that training never sees, the same ones at every call."""
        returns, lengths = self._training().evaluate(whole_number("episodes", episodes))
        return Score(float(returns[0].mean()), float(returns[0].std()), returns[0].tolist(), lengths[0].tolist())

    def estimate_value(self, dataset: Dataset, *, updates: int = 20_000, seed: int = 0) -> ValueEstimate:
        """Estimate the discounted value of the policy from data alone; the result warns where they hardly cover it."""
        check_fits("dataset", dataset.spec, self.spec)
        policy = self.agent.deployed(self.config, self._learned())
        updates = whole_number("updates", updates)
        return estimate_value(
            policy, dataset, gamma=self.config.gamma, updates=updates, seed=whole_number("seed", seed, low=0)
        )

    @property
    def policy(self) -> HostPolicy:
        """The policy that `predict` and `evaluate` use, in numpy, on observations as the agent sees them."""
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

    def set_env(self, env: Env | VecEnv, *, eval_env: OneEnv | None = None, noise: float = 0.0) -> None:
        """Continue in another environment with the same spaces; the data of the old one are dropped."""
        given = as_env(env)
        task = read_task(given, noise)
        check_fits("env", task.spec, self.spec)
        trainer = self._make_trainer(given, task, eval_env)
        learned = self._learned()
        if learned.iteration > 0:  # else the warm-up is still to come
            trainer.load([learned])
        self._steps_before = self.num_timesteps
        self.close()
        self._task, self._trainer = task, trainer

    def close(self) -> None:
        """Close the environments that the agent made."""
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
        shared = {"spec": task.spec, "noise": task.noise, "eval_env": eval_env, "behaviour": behaviour}
        return Trainer(self.agent, env, self.config, seeds=[self.seed], **shared)

    def _training(self) -> Trainer:
        """The trainer; a loaded agent makes one at the first call, as it needs no environment to predict."""
        if self._trainer is None:
            self._leave()
            assert self._trainer is not None
        return self._trainer

    def _leave(self) -> None:
        """Make a trainer for the environment that the task names, with what was learned."""
        name = self.task.name
        if name is None:
            raise ValueError("the agent was made without an environment: name one (set_env, or --env)")
        check_imports_nothing(name, "set_env")
        self.set_env(name, noise=self.task.noise)

    def _learned(self) -> Any:
        return self._state if self._trainer is None else self._trainer.member(0)

    # --------------------------------------------------------------------------------------------- parameters

    def get_parameters(self) -> dict[str, np.ndarray]:
        """All that was learned, as arrays by name: parameters, optimisers' moments, running scales."""
        return named_tensors(self._learned())

    def set_parameters(self, parameters: Mapping[str, Any], exact_match: bool = True) -> None:
        """Replace arrays that `get_parameters` names.   exact_match: all of them must be given"""
        state = replaced(self._learned(), parameters, exact_match)
        if self._trainer is None:
            self._state = state
            self.__dict__.pop("_loaded_policy", None)
        else:
            self._trainer.replace(state)

    # --------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write a directory of named tensors and a manifest, without the data that the agent learned from."""
        card = ModelCard(self.agent.name, self.task, self.preset, self.config, self.seed, self.num_timesteps)
        save_model(Path(path), card, self._learned())

    @classmethod
    def load(cls, path: str | Path, env: Env | VecEnv | None = None) -> Self:
        """Load a saved agent, or a run's, for `env`, or for the environment that its file names.

        Without either it only predicts. `Algorithm.load` loads agents of every kind.
        """
        path = model_in(Path(path))
        card, state = load_model(path)
        kind = next((kind for kind in _kinds(cls) if kind.agent.name == card.agent), None)
        if kind is None:
            raise DamagedModel(f"'{path}' holds an agent of another kind, {card.agent!r}")
        found = kind.__new__(kind)
        found.logger = Logger()
        found._be(card, state=state)
        if env is not None:
            found.set_env(env)
        return found


def _kinds(kind: type[A]) -> Iterator[type[A]]:
    """The class itself, if it is an agent's, and all its subclasses."""
    if hasattr(kind, "agent"):
        yield kind
    for subclass in kind.__subclasses__():
        yield from _kinds(subclass)
