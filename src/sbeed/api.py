"""The public agents: learn, fit, predict, evaluate, save, load, under the names that Stable-Baselines3 uses."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import gymnasium
import numpy as np

from sbeed.agents.base import Agent
from sbeed.agents.configs import check_names
from sbeed.agents.knobs import whole_number
from sbeed.agents.registry import configured, find
from sbeed.data.dataset import Dataset
from sbeed.envs import spaces
from sbeed.envs.task import Env, OneEnv, Task, check_fits, check_imports_nothing, read_task
from sbeed.models.host import HostPolicy
from sbeed.storage.models import ModelCard, load_model, save_model
from sbeed.storage.run_dir import RunDir
from sbeed.storage.tensors import DamagedModel
from sbeed.training.experience import Rule
from sbeed.training.loop import run_loop
from sbeed.training.ope import ValueEstimate, estimate_value
from sbeed.training.progress_bar import progress_bar as show_progress
from sbeed.training.run import RunSpec, in_rounds
from sbeed.training.session import is_finished, record, restore
from sbeed.training.trainer import Trainer
from sbeed.types import EnvSpec

POLICIES = {"MlpPolicy": "mlp", "RbfPolicy": "rbf", "TabularPolicy": "table"}
PREDICTION = 3  # second word of the seed of `predict`'s draws; `training.actors` has the others


class Score(NamedTuple):
    """Returns and lengths of evaluation episodes of the deterministic policy; std is over episodes."""

    mean_return: float
    std_return: float
    returns: list[float]
    lengths: list[int]


class Algorithm:
    """Base class of SBEED, PCL and the other agents: one agent on one environment.

    policy: "MlpPolicy", "RbfPolicy", "TabularPolicy", or None for the preset's own.
    env: a Gymnasium id, a name such as "jax:pendulum", a Gymnasium environment or vector environment, or a JAX
    environment. Without one, the agent learns from a dataset alone (`fit`) and takes the dataset's spaces.
    preset: the settings to start from. config_fields: fields of the config that replace the preset's.
    eval_env: the environment of `evaluate`; by default another one like `env`.
    behaviour: the policy that collects data: "current" for the one being learned, another agent, or a function from
    the observation (as the agent sees it) to an action in [-1, 1], or to an integer.
    noise: standard deviation of noise added to every transition of a Gymnasium environment.
    """

    agent: ClassVar[Agent]

    def __init__(
        self,
        policy: str | None = None,
        env: Env | None = None,
        *,
        preset: str = "default",
        seed: int = 0,
        eval_env: OneEnv | None = None,
        behaviour: "Algorithm | Rule | str" = "current",
        noise: float = 0.0,
        **config_fields: Any,
    ):
        self._asked = policy, preset, whole_number("seed", seed, low=0), behaviour, config_fields
        self._task: Task | None = None
        self._trainer: Trainer | None = None
        if env is not None:
            self._settle(read_task(env, noise))
            self._trainer = self._make_trainer(env, self.task, eval_env)

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

    @property
    def task(self) -> Task:
        if self._task is None:
            raise ValueError("the agent has no environment yet: make it with one, or fit it to a dataset")
        return self._task

    # --------------------------------------------------------------------------------------------- learning

    def learn(
        self,
        total_timesteps: int,
        *,
        callback: Any = None,
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

        callback: a function of the agent, or an object with `on_step()`, called after every iteration; False ends the
        call. out: a new directory for the curve, the metrics and the final model. Evaluations and checkpoints
        (`checkpoint_every` 0: none) are made only with it, and Ctrl-C and SIGTERM then save what was learned before
        they end the call. resume: continue the run in `out` up to `total_timesteps` in all, as if it had never
        stopped; construct and call the agent as before. restart_episodes: continue with new episodes, for an
        environment that is not deterministic, so that its unfinished episodes cannot be replayed.
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
        return self._run(self._training(), spec, callback, progress_bar, out, resume, restart_episodes)

    def fit(
        self,
        dataset: Dataset,
        updates: int,
        *,
        eval_env: OneEnv | None = None,
        callback: Any = None,
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
        return self._run(trainer, spec, callback, progress_bar, out, resume)

    def _run(
        self,
        trainer: Trainer,
        spec: RunSpec,
        callback: Any,
        progress_bar: bool,
        out: str | Path | None,
        resume: bool,
        restart_episodes: bool = False,
    ) -> Self:
        if resume and out is None:
            raise ValueError("resume: requires the directory of the run (out)")
        if restart_episodes and not resume:
            raise ValueError("restart_episodes: requires resume: only a resumed run has unfinished episodes")
        steps, proceed = spec.steps, _as_function(callback, self)
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
                return proceed() is not False

            if run is None:
                run_loop(trainer, steps, evaluate_every=None, on_progress=on_progress)
            else:
                record(run, spec, trainer, self.task, earlier=earlier, past=past, on_progress=on_progress)
        return self

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

    def set_env(self, env: Env, *, eval_env: OneEnv | None = None, noise: float = 0.0) -> None:
        """Continue in another environment with the same spaces; the data of the old one are dropped."""
        task = read_task(env, noise)
        check_fits("env", task.spec, self.spec)
        trainer = self._make_trainer(env, task, eval_env)
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

    # --------------------------------------------------------------------------------------------- files

    def save(self, path: str | Path) -> None:
        """Write a directory of named tensors and a manifest, without the data that the agent learned from."""
        card = ModelCard(self.agent.name, self.task, self.preset, self.config, self.seed, self.num_timesteps)
        save_model(Path(path), card, self._learned())

    @classmethod
    def load(cls, path: str | Path, env: Env | None = None) -> Self:
        """Load a saved agent for `env`, or for the environment that its file names; without either it only predicts.

        `Algorithm.load` loads agents of every kind.
        """
        card, state = load_model(Path(path))
        kind = ALGORITHMS[card.agent]
        if not issubclass(kind, cls):
            raise DamagedModel(f"'{path}' holds an agent of another kind, {card.agent!r}")
        found = kind.__new__(kind)
        found._be(card, state=state)
        if env is not None:
            found.set_env(env)
        return found


class SBEED(Algorithm):
    """Smoothed Bellman error embedding, in Q = V + lam log pi; the `paper` presets learn V and pi themselves."""

    agent = find("sbeed")


class PCL(Algorithm):
    """Path consistency learning: SBEED without a dual. `default` is its trust-region form, `paper` the plain one."""

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


def _as_function(callback: Any, agent: Algorithm) -> Callable[[], bool | None]:
    """Turn a function of the agent, or a callback with `on_step()` as in SB3, into a function without arguments."""
    if callback is None:
        return lambda: None
    if not hasattr(callback, "on_step"):
        return lambda: callback(agent)
    if hasattr(callback, "init_callback"):
        callback.init_callback(agent)
    return callback.on_step
