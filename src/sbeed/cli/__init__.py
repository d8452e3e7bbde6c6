"""The command line: parse and call, nothing else. jax is imported by the commands, never by `--help`."""

import contextlib
import io
import os
import re
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import tyro

from sbeed import __version__
from sbeed.agents.configs import config_of
from sbeed.cli.console import ENVIRONMENT_FAULT, OUR_FAULT, UserError, complain, one_line, say
from sbeed.cli.data import Data, Record, Value
from sbeed.cli.figure import FigureCommand
from sbeed.cli.fit import FitSettings, fit_command
from sbeed.cli.flags import spell_out, switches, whole_fields
from sbeed.cli.inspect import Inspect
from sbeed.cli.plan import RunSettings, check_flags, chosen, read_file
from sbeed.cli.report import Report
from sbeed.cli.runs import Eval, Plot, Video
from sbeed.cli.short_help import train_help
from sbeed.cli.theory import Theory
from sbeed.cli.train import Resume, Train, with_flags_of
from sbeed.cli.tune import Tune
from sbeed.cli.words import hint, names_a_module, whole_numbers
from sbeed.reporting.markup import printable
from sbeed.training.interrupt import Terminated

DESCRIPTION = "SBEED: reinforcement learning that solves the smoothed Bellman equation as an optimisation problem."
# Flags of the commands that take whole numbers, which may be written 1e6.
COUNTS = whole_fields(RunSettings, FitSettings, Record, Eval, Video)
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
    failed; 4: a run diverged; 70: our own fault; 130: interrupted; 141: the output pipe was closed; 143: terminated.
    """
    args = list(sys.argv[1:] if args is None else args)
    warnings.formatwarning = lambda message, *_: f"sbeed: {printable(str(message))}\n"
    if args == ["--version"]:
        say(f"sbeed {__version__}")
        return
    try:
        command = _parse(args)
        try:
            code = command()
        except SystemExit as stop:  # of an environment, a policy or a library: it does not decide how the command ends
            if isinstance(stop, Terminated):
                raise
            raise UserError(f"something that was run called sys.exit({stop.code!r})", ENVIRONMENT_FAULT) from stop
        sys.stdout.flush()  # so that a closed pipe shows here, not after main
        sys.exit(code)
    except UserError as error:
        complain(error)
        sys.exit(error.code)
    except BrokenPipeError:
        # The reader of the pipe has closed it. Nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        complain(f"cannot write: {error}")
        sys.exit(2)
    except KeyboardInterrupt as stop:
        complain(": ".join(["interrupted", *map(str, stop.args)]))
        sys.exit(130)
    except Terminated as stop:
        complain(f"terminated: {stop.kept}")
        raise
    except Exception as error:  # that nobody foresaw
        complain(f"an error of sbeed's own, {type(error).__name__}: {one_line(error):.500}; {_kept(error)}")
        sys.exit(OUR_FAULT)


def _kept(error: Exception) -> str:
    """Write the traceback to a file and say which."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="sbeed-", suffix=".txt", delete=False) as file:
            file.writelines(traceback.format_exception(error))
    except OSError:
        return "its traceback could not be written"
    return f"please report it with '{file.name}'"


def _parse(args: list[str]) -> Callable[[], int]:
    """Parse the arguments into a command with its fields; wrong input becomes one line instead of tyro's box."""
    asks, complaint = bool(args) and args[0] in ("train", "fit", "tune"), io.StringIO()
    file = read_file(args) if asks else {}
    agent, preset = chosen(args, file)
    if asks:
        check_flags(agent, preset, args)
    if args[:1] == ["train"] and {"-h", "--help"} & set(args):
        say(train_help(agent, preset))
        sys.exit(0)
    args = ["--help" if arg == "--help-all" else arg for arg in args]
    if names_a_module(args):  # at the end: nothing in the current folder takes another module's place
        sys.path.append(os.getcwd())
    form = config_of(agent, preset)
    args = whole_numbers(spell_out(args, switches(form)), COUNTS | whole_fields(form))
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
        said = hint(args, commands, get_type_hints(form)) if "Unrecognized" in complaint.getvalue() else None
        if said is not None and said.startswith("--"):
            raise UserError(said) from None
        line = _one_line(complaint.getvalue())
        raise UserError(line if said is None else f"{line}; {said}") from None


def _one_line(box: str) -> str:
    """Extract the sentences of tyro's framed error message, without its title and the pointer to --help."""
    _, *sections = re.split(r"(?m)^.*[─-]{3,}.*$", box)
    sentences = [" ".join(section.replace("│", " ").split()) for section in sections]
    text = "; ".join(one.rstrip(".") for one in sentences if one and not one.startswith("For full helptext"))
    text = re.sub(r"invalid literal for int\(\) with base 10: (\S+)", r"expected a whole number, got \1", text)
    # Internally None stands for a flag that was not given; the user need not see it.
    text = re.sub(r"no type matching \{None\}\|.*? could be .*? from \[(.*?)\].*?; Arg", r"got \1; Arg", text)
    return text.replace("Argument helptext: ", "").replace(", 'None'", "").replace("'None', ", "")
