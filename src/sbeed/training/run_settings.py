"""The settings of a run in its config.yaml: written when it begins, read and compared when it continues."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from sbeed.agents.configs import check_names
from sbeed.agents.knobs import plain_fields, whole_number, with_fields
from sbeed.storage import run_dir
from sbeed.training.run import RunSpec
from sbeed.training.trainer import Trainer


def settings_of(spec: RunSpec, trainer: Trainer, first_step: int) -> dict[str, Any]:
    """The content of config.yaml. Without `env` if names alone cannot make the run again."""
    first, members = trainer.seeds[0], len(trainer.seeds)
    by_names = trainer.by_names and first_step == 0 and trainer.seeds == tuple(range(first, first + members))
    left_out = {"fields", *(() if by_names else ("env",)), *(() if spec.data else ("data",))}
    asked = {name: value for name, value in spec.as_dict().items() if name not in left_out}
    return {**asked, "seed": first, "seeds": members, **plain_fields(trainer.config)}


def read_settings(path: Path) -> tuple[RunSpec, range]:
    """Read the run that config.yaml describes, and its seeds."""
    settings = run_dir.read_config(path / run_dir.CONFIG)
    if "env" not in settings:
        raise ValueError(
            f"'{path}' was begun with an environment, a behaviour or an agent that is in no file: "
            "only the program that began it can go on, with learn(resume=True)"
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
