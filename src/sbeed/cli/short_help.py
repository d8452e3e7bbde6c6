"""`sbeed train --help`: the flags that a first run needs, explained; names and values of the others."""

import textwrap
from collections.abc import Iterable
from dataclasses import fields

from sbeed.agents.configs import config_of
from sbeed.agents.knobs import help_line
from sbeed.cli.flags import dashed, metavar, preset_value
from sbeed.cli.plan import RunSettings

WIDTH = 100
FIRST = ("env", "steps", "agent", "preset", "seed", "seeds", "evaluate_every")
OF_THE_RUN = {
    "--out DIR": "directory of the run, which must be empty or not exist (required)",
    "--config FILE": "YAML or JSON file of settings; flags override it",
    "--workers INT": "processes that step the environments; 0: this one does (default: 0)",
    "--env-kwargs KEY=VALUE ...": "arguments of the environment",
    "--wrapper MODULE:NAME ...": "wrappers around the environment, the first one innermost",
    "--quiet, --verbose": "print only the scores; print a line for each evaluation on a terminal too",
}
ESSENTIAL = ("gamma", "lam", "eta", "k", "hidden", "batch_size", "warmup", "replay_capacity")


def train_help(agent: str, preset: str) -> str:
    """The page for that agent's preset."""
    run = {field.name: field for field in fields(RunSettings)}
    own = {field.name: field for field in fields(config_of(agent, preset))}
    shown = [name for name in ESSENTIAL if name in own]
    lines = ["usage: sbeed train --env NAME --out DIR [FLAGS]", ""]
    for name in FIRST:
        kind = metavar(RunSettings.__annotations__[name])
        default = f" (default: {run[name].default})" if run[name].default != "" else ""
        lines += _entry(f"--{dashed(name)} {kind}", help_line(run[name].metadata) + default)
    for flag, about in OF_THE_RUN.items():
        lines += _entry(flag, about)
    lines += ["", f"Settings of {agent}, with the values of preset {preset or 'default'}:"]
    for name in shown:
        lines += _entry(
            f"--{dashed(name)}", f"{help_line(own[name].metadata)} (default: {_value(agent, preset, name)})"
        )
    lines += ["", "The others, explained by `sbeed train --help-all`:"]
    rest = [f"--{dashed(name)} {_value(agent, preset, name)}" for name in own if name not in shown]
    rest += [f"--{dashed(name)} {field.default}" for name, field in run.items() if name not in FIRST]
    lines += _wrapped(rest)
    return "\n".join(lines)


def _value(agent: str, preset: str, name: str) -> str:
    return preset_value(agent, preset, name).replace(" ", "\u00a0")


def _entry(flag: str, about: str) -> list[str]:
    left = f"  {flag:<24} "
    lines = textwrap.wrap(about, WIDTH, initial_indent=left, subsequent_indent=" " * 27)
    return [line.replace("\u00a0", " ") for line in lines]


def _wrapped(words: Iterable[str]) -> list[str]:
    """Lines of flags with their values, which are not torn apart."""
    text = "  ".join(word.replace(" ", "\u00a0") for word in words)
    wrapped = textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in wrapped]
