"""The values of `learn(callback=...)`: a function of the agent, callbacks as in Stable-Baselines3, or a list of these.

A function of the agent is called once for each iteration. An object with `on_step()` and a function of (locals,
globals) are called once for each environment step, as in Stable-Baselines3 (docs/callbacks.md).
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from sbeed.bridge.model import Model
from sbeed.training.loop import goes_on
from sbeed.training.trainer import Trainer

# Callbacks of Stable-Baselines3 that read what an EvalCallback, their parent, has measured.
_CHILDREN = ("StopTrainingOnRewardThreshold", "StopTrainingOnNoModelImprovement")


class Listener(Protocol):
    """A hearer of one call of `learn` or `fit`."""

    def start(self, total: int) -> None:
        """Before the first iteration.   total: the steps that the agent will have taken"""

    def hear(self) -> bool:
        """After each iteration; False ends the call."""

    def end(self) -> None:
        """After the last iteration."""


def listener(callback: Any, agent: Any, trainer: Trainer) -> Listener:
    """Make the listener of that value of `callback`; raise a ValueError for one that cannot work."""
    flat = list(_flattened(callback))
    per_step = [_as_object(one) for one in flat if _is_per_step(one)]
    functions = [one for one in flat if not _is_per_step(one)]
    for function in functions:
        _call(function, "check", agent)
    return _Listener(functions, _Steps(per_step, Model(agent, trainer)) if per_step else None, agent)


def _flattened(callback: Any) -> Iterator[Any]:
    if isinstance(callback, list | tuple):
        for one in callback:
            yield from _flattened(one)
    elif callback is not None:
        yield callback


def _is_per_step(callback: Any) -> bool:
    """True for an object with `on_step()` or a function of (locals, globals), False for a function of the agent."""
    if hasattr(callback, "on_step") and not isinstance(callback, type):
        return True
    if isinstance(callback, type) or not callable(callback):
        raise ValueError(
            f"callback: must be a function of the agent, an object with on_step(), or a list of these, got {callback!r}"
        )
    fits = [count for count in (1, 2) if _takes(callback, count)]
    if not fits:
        raise ValueError(f"callback: {callback!r} must take the agent, or (locals, globals)")
    return fits[0] == 2


def _takes(function: Callable[..., Any], arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:  # a function of C has no signature
        return arguments == 1
    return True


class _Function:
    """A function of (locals, globals) as an object with `on_step()`."""

    def __init__(self, function: Callable[[dict[str, Any], dict[str, Any]], Any]):
        self.function = function

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        self.locals, self.globals = locals_, globals_

    def on_step(self) -> Any:
        return self.function(self.locals, self.globals)


def _as_object(callback: Any) -> Any:
    return callback if hasattr(callback, "on_step") else _Function(callback)


class _Listener:
    def __init__(self, functions: Sequence[Callable[[Any], Any]], steps: "_Steps | None", agent: Any):
        self.functions, self.steps, self.agent = functions, steps, agent

    def start(self, total: int) -> None:
        if self.steps is not None:
            self.steps.start(total)

    def hear(self) -> bool:
        """Call all of them, also after one of them ended the run."""
        answers = [goes_on(function(self.agent)) for function in self.functions]
        if self.steps is not None:
            answers.append(self.steps.hear())
        return all(answers)

    def end(self) -> None:
        if self.steps is not None:
            self.steps.end()


class _Steps:
    """Callbacks of single environment steps. They are told of an iteration's steps, one by one, when it is over."""

    def __init__(self, callbacks: Sequence[Any], model: Model):
        self.callbacks, self.model = callbacks, model
        for callback in self.callbacks:
            _check(callback, self.model)
            try:
                _call(callback, "init_callback", self.model)
            except AssertionError as error:
                raise ValueError(f"callback: {type(callback).__name__} cannot work here: {error}") from error

    def start(self, total: int) -> None:
        self.model.begin()
        for callback in self.callbacks:
            locals_ = {"self": self.model, "callback": callback, "total_timesteps": total, "tb_log_name": "sbeed"}
            _call(callback, "on_training_start", locals_, {})

    def hear(self) -> bool:
        for callback in self.callbacks:
            _call(callback, "on_rollout_start")
        for seen in self.model.steps():
            for callback in self.callbacks:
                _call(callback, "update_locals", seen)
            if not all([goes_on(callback.on_step()) for callback in self.callbacks]):
                return False
        for callback in self.callbacks:
            _call(callback, "on_rollout_end")
        return True

    def end(self) -> None:
        self.model.trainer.keep_steps(False)
        for callback in self.callbacks:
            _call(callback, "on_training_end")


def _call(callback: Any, hook: str, *arguments: Any) -> None:
    """Call a hook that not every object has."""
    found = getattr(callback, hook, None)
    if found is not None:
        found(*arguments)


def _check(callback: Any, model: Model) -> None:
    """Raise a ValueError for a callback, or one inside it, that would fail or do nothing during the run."""
    name = type(callback).__name__
    if name in _CHILDREN and getattr(callback, "parent", None) is None:
        raise ValueError(f"callback: {name} works inside an EvalCallback (callback_on_new_best, callback_after_eval)")
    for wish in ("save_replay_buffer", "save_vecnormalize"):
        if getattr(callback, wish, False) is True:
            raise ValueError(
                f"callback: {name} cannot {wish}: learn(out=..., checkpoint_every=...) writes checkpoints with the "
                "replay and the running scales, from which a run goes on"
            )
    eval_env = getattr(callback, "eval_env", None)
    if eval_env is not None:
        for kind in ("observation_space", "action_space"):
            ours, theirs = getattr(model, kind), getattr(eval_env, kind)
            if ours != theirs:
                raise ValueError(f"callback: the {kind} of {name}'s eval_env is {theirs}, the agent's is {ours}")
    inner = [getattr(callback, place, None) for place in ("callbacks", "callback", "callback_on_new_best")]
    for one in _flattened(inner):
        if hasattr(one, "on_step"):
            _check(one, model)
