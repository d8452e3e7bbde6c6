"""The command line: parse and call, nothing else. jax is imported by the commands, never by `--help`."""

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro

from sbeed import __version__
from sbeed.agents.configs import config_of
from sbeed.cli.console import UserError
from sbeed.cli.data import Data, Record, Value
from sbeed.cli.figure import FigureCommand
from sbeed.cli.fit import fit_command
from sbeed.cli.flags import spell_out, switches
from sbeed.cli.inspect import Inspect
from sbeed.cli.plan import check_flags, chosen, read_file
from sbeed.cli.report import Report
from sbeed.cli.runs import Eval, Plot, Video
from sbeed.cli.theory import Theory
from sbeed.cli.train import Resume, Train, with_flags_of
from sbeed.cli.tune import Tune
from sbeed.training.interrupt import Terminated

DESCRIPTION = "SBEED: reinforcement learning that solves the smoothed Bellman equation as an optimisation problem."
COMMANDS: dict[str, Callable[..., Any]] = {
    "resume": Resume,
    "inspect": Inspect,
    "record": Record,
    "data": Data,
    "value": Value,
    "eval": Eval,
    "video": Video,
    "plot": Plot,
    "theory": Theory,
    "figure": FigureCommand,
    "report": Report,
}


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the `sbeed` command.

    Exit code 0: done; 1: a statement does not hold; 2: wrong input, or the disk cannot be written; 3: an environment
    failed; 4: a run diverged; 130: interrupted; 141: the output pipe was closed; 143: terminated.
    """
    args = list(sys.argv[1:] if args is None else args)
    warnings.formatwarning = lambda message, *_: f"sbeed: {message}\n"
    if args == ["--version"]:
        print(f"sbeed {__version__}")
        return
    try:
        code = _parse(args)()
        sys.stdout.flush()  # so that a closed pipe shows here, not after main
        sys.exit(code)
    except UserError as error:
        print(f"sbeed: {error}", file=sys.stderr)
        sys.exit(error.code)
    except BrokenPipeError:
        # The reader of the pipe has closed it. Nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        print(f"sbeed: cannot write: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        print(": ".join(["sbeed: interrupted", *map(str, stop.args)]), file=sys.stderr)
        sys.exit(130)
    except Terminated as stop:
        print(f"sbeed: terminated: {stop.kept}", file=sys.stderr)
        raise


def _parse(args: list[str]) -> Callable[[], int]:
    """Parse the arguments into a command with its fields; wrong input becomes one line instead of tyro's box."""
    asks, complaint = bool(args) and args[0] in ("train", "fit", "tune"), io.StringIO()
    file = read_file(args) if asks else {}
    agent, preset = chosen(args, file)
    if asks:
        check_flags(agent, preset, args)
    args = spell_out(args, switches(config_of(agent, preset)))
    commands: dict[str, Callable[..., Any]] = {
        "train": with_flags_of(agent, preset, Train, file),
        "fit": fit_command(agent, preset),
        "tune": with_flags_of(agent, preset, Tune, file),
        **COMMANDS,
    }
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.extras.subcommand_cli_from_dict(commands, prog="sbeed", description=DESCRIPTION, args=args)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_one_line(complaint.getvalue())) from None


def _one_line(box: str) -> str:
    """Extract the sentences of tyro's framed error message, without its title and the pointer to --help."""
    _, *sections = re.split(r"(?m)^.*[─-]{3,}.*$", box)
    sentences = [" ".join(section.replace("│", " ").split()) for section in sections]
    text = "; ".join(one.rstrip(".") for one in sentences if one and not one.startswith("For full helptext"))
    text = re.sub(r"invalid literal for int\(\) with base 10: (\S+)", r"expected a whole number, got \1", text)
    # Internally None stands for a flag that was not given; the user need not see it.
    text = re.sub(r"no type matching \{None\}\|.*? could be .*? from \[(.*?)\].*?; Arg", r"got \1; Arg", text)
    return text.replace("Argument helptext: ", "").replace(", 'None'", "").replace("'None', ", "")
