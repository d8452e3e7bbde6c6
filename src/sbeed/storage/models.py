"""Save and load models: an agent's state, its config, and the description of its environment."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax

from sbeed.agents.configs import FORMER, FORMER_AGENTS
from sbeed.agents.knobs import plain_fields, whole_number
from sbeed.agents.registry import find, restored
from sbeed.envs import spaces
from sbeed.envs.task import Task
from sbeed.storage.tensor_folder import MODEL
from sbeed.storage.tensors import MANIFEST, DamagedModel
from sbeed.types import EnvSpec


class ModelCard(NamedTuple):
    """The description of a saved model in its manifest."""

    agent: str
    task: Task
    preset: str
    config: Any
    seed: int
    steps: int


def save_model(path: Path, card: ModelCard, state: Any) -> None:
    """Write a directory; an existing model there is replaced in one rename."""
    agent, task, preset, config, seed, steps = card
    env = {
        **{"name": task.name, "noise": task.noise, "spec": asdict(task.spec)},
        "observation_space": spaces.to_json(task.observation_space),
        "action_space": spaces.to_json(task.action_space),
    }
    about = {"agent": agent, "preset": preset, "seed": seed, "steps": steps, "env": env, "config": plain_fields(config)}
    MODEL.save(path, state, about)


def load_model(path: Path) -> tuple[ModelCard, Any]:
    """Load a model and its state, as numpy arrays; raise DamagedModel if it differs from what was saved."""
    manifest = MODEL.read_manifest(path)
    card = _read_card(path, manifest)
    like = jax.eval_shape(lambda key: find(card.agent).init(card.config, card.task.spec, key), jax.random.key(0))
    return card, MODEL.load(path, like, manifest)


def _read_card(path: Path, manifest: dict[str, Any]) -> ModelCard:
    """Read and check the manifest: the agent is known, it accepts the config, and the spaces fit."""
    if manifest["schema"] == 1 and manifest.get("agent") in FORMER_AGENTS:
        raise DamagedModel(f"'{path}' was trained by {FORMER}")
    try:
        env = manifest["env"]
        spec, name = EnvSpec(**env["spec"]), env["name"]
        seen, done = (spaces.from_json(env[f"{kind}_space"]) for kind in ("observation", "action"))
        sizes = [gymnasium.spaces.flatdim(space) for space in (seen, done)]
        if [spec.observation_size, spec.action_size] != sizes or not isinstance(name, str | None):
            raise ValueError("its environment contradicts itself")
        agent, preset = find(manifest["agent"]), manifest["preset"]
        config = restored(agent.name, preset, spec, manifest["config"])
        agent.check(config, spec)
        seed, steps = (whole_number(word, manifest[word], low=0) for word in ("seed", "steps"))
        task = Task(spec, seen, done, name, float(env["noise"]))
        return ModelCard(agent.name, task, preset, config, seed, steps)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise DamagedModel(f"'{path / MANIFEST}' is not a manifest of ours: {reason}") from None
