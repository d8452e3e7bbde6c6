"""The settings of a run, in its config.yaml and its checkpoints: written when it begins, compared when it continues."""

import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from sbeed.agents.configs import check_names
from sbeed.agents.knobs import plain_fields, whole_number, with_fields
from sbeed.envs.maker import EnvMaker
from sbeed.storage import run_dir, tensors
from sbeed.storage.checkpoints import Checkpoint, steps_of
from sbeed.storage.tensors import DamagedModel
from sbeed.training.run import RunSpec
from sbeed.training.trainer import Trainer

_KEPT = ("preset", "steps", "evaluate_every", "episodes", "final_episodes", "checkpoint_every")


def settings_of(spec: RunSpec, trainer: Trainer, first_step: int) -> dict[str, Any]:
    """The content of config.yaml. Without `env` if names alone cannot make the run again."""
    first, members = trainer.seeds[0], len(trainer.seeds)
    by_names = trainer.by_names and first_step == 0 and trainer.seeds == tuple(range(first, first + members))
    left_out = {"fields", *(() if by_names else ("env",)), *(() if spec.data else ("data",))}
    asked = {name: value for name, value in spec.as_dict().items() if name not in left_out}
    return {**asked, "seed": first, "seeds": members, **plain_fields(trainer.config)}


def read_settings(path: Path, maker: EnvMaker | None = None) -> tuple[RunSpec, range]:
    """Read the run that config.yaml describes, and its seeds.   maker: its environment, if config.yaml names none"""
    settings = run_dir.read_config(path / run_dir.CONFIG)
    if maker is not None:
        if "env" in settings:
            raise ValueError(f"env_kwargs: the run's environment is {settings['env']!r}, without arguments or wrappers")
        settings["env"] = maker.name
    if "env" not in settings:
        raise ValueError(
            f"'{path}' was begun with an environment, a behaviour or an agent that is in no file: "
            "only the program that began it can go on, with learn(resume=True); an environment that was named with "
            "--env-kwargs or --wrapper is named again"
        )
    names = {field.name for field in fields(RunSpec)} - {"fields"}
    asked = {name: settings.pop(name) for name in names & settings.keys()}
    first, members = (whole_number(name, settings.pop(name, low), low=low) for name, low in (("seed", 0), ("seeds", 1)))
    return with_fields(RunSpec("", fields=settings), asked), range(first, first + members)


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Raise a ValueError that names the first setting in which the run in the directory differs."""
    there = run_dir.read_config(path / run_dir.CONFIG)
    check_names(settings["agent"], settings["preset"], there)
    for name in {**settings, **there}:
        if there.get(name) != settings.get(name):
            raise ValueError(
                f"'{path}' is another run's: its {name} is {there.get(name)!r}, here it is {settings.get(name)!r}"
            )


def _saved_settings(path: Path) -> dict[str, Any]:
    """What the newest checkpoint says was asked for; nothing if it is older than that, or damaged (see `restore`)."""
    for step in steps_of(path)[-1:]:
        with suppress(DamagedModel):
            found = Checkpoint(path, step).about.get("settings")
            return dict(found) if isinstance(found, dict) else {}
    return {}


def as_begun(path: Path, spec: RunSpec) -> RunSpec:
    """The settings that a checkpoint cannot tell from where the run stands, as the newest one keeps them.

    What differs in config.yaml is named. What makes it another run is refused by `restore`.
    """
    saved = _saved_settings(path)
    kept = {name: saved[name] for name in _KEPT if name in saved}
    begun = with_fields(spec, kept)
    edits = [name for name in kept if getattr(begun, name) != getattr(spec, name)]
    if edits:
        told = ", ".join(f"{name} {getattr(spec, name)!r} (begun with {kept[name]!r})" for name in edits)
        warnings.warn(f"'{path / run_dir.CONFIG}' was edited: {told}; the run goes on as begun", stacklevel=3)
    return begun


def machine() -> dict[str, Any]:
    """What rounding depends on, beside the versions."""
    import jax

    return {"cores": _cores(), "device": jax.devices()[0].device_kind, "XLA_FLAGS": os.environ.get("XLA_FLAGS", "")}


def _cores() -> int:
    """The threads among which XLA divides large sums on a CPU: by NPROC, else as many as there are cores."""
    told = os.environ.get("NPROC", "")
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(told) if told.isdecimal() and int(told) else there


def tell_differences(checkpoint: Checkpoint) -> None:
    """Warn of what makes numbers round in another way here than where the checkpoint was written."""
    then = {**checkpoint.versions, **checkpoint.about.get("machine", {})}
    here = {**tensors.versions(), **machine()}
    told = [
        f"{name} {then[name]} there, {here[name]} here" for name in here if name in then and then[name] != here[name]
    ]
    if told:
        lost = "the rest of the run may differ in rounding from one that never stopped"
        warnings.warn(f"{', '.join(told)}: {lost}", RuntimeWarning, stacklevel=3)
