"""The command line: parse and call, nothing else. jax is imported by the commands, never by `--help`."""

import contextlib
import io
import json as json_module
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from sbeed import __version__

if TYPE_CHECKING:
    from sbeed.theory.report import Row

MOST_MDPS = 100_000
DESCRIPTION = "SBEED: reinforcement learning that solves the Bellman equation by convergent optimisation."


class UserError(Exception):
    """Wrong input: the message is the one line that the user reads."""


@dataclass(frozen=True)
class Theory:
    """Check every statement of the paper on random finite MDPs. Exit code 1 if one fails."""

    mdps: int = 200
    """Random MDPs for each algebraic statement, 1 to 100000; asymptotic ones take a tenth, averages at least 20."""
    seed: int = 0
    """Seed of the MDPs and of the points at which statements are checked, at least 0."""
    only: tuple[str, ...] | None = None
    """Names of the statements to check, at least one; without this flag, all."""
    json: bool = False
    """Print a JSON list of rows on stdout instead of the table."""

    def __call__(self) -> int:
        _require("--mdps", 1 <= self.mdps <= MOST_MDPS, f"must lie in 1..{MOST_MDPS}, got {self.mdps}")
        _require("--seed", 0 <= self.seed < 2**32, f"must lie in [0, 2^32), got {self.seed}")
        from sbeed.theory.claims import STATEMENTS

        names = [statement.name for statement in STATEMENTS]
        _require("--only", self.only != (), f"name at least one of {', '.join(names)}")
        for name in self.only or ():
            _require("--only", name in names, f"no statement is named '{name}'; choose from {', '.join(names)}")
        _keep_compiled_programs()
        from sbeed.theory import report

        statements = [s for s in STATEMENTS if self.only is None or s.name in self.only]
        with _progress(len(statements), "statements") as advance:
            rows = report.run(statements, mdps=self.mdps, seed=self.seed, on_row=lambda row: advance(row.name))
        if self.json:
            print(json_module.dumps([row.as_dict() for row in rows], indent=1, allow_nan=False))
        else:
            _print_theory_table(rows)
        return 0 if all(row.holds for row in rows) else 1


@dataclass(frozen=True)
class Figure:
    """Draw a figure of the paper, or of its theory."""

    name: Annotated[Literal["theory"], tyro.conf.Positional]
    """Which figure."""
    out: Path = Path("results/theory")
    """Directory for the PNG, the SVG and the CSV of its numbers."""
    seed: int = 0
    """Seed of everything that is sampled, at least 0."""

    def __call__(self) -> int:
        _require("--seed", 0 <= self.seed < 2**32, f"must lie in [0, 2^32), got {self.seed}")
        _require("figure", find_spec("matplotlib") is not None, "needs matplotlib: pip install 'sbeed[plot]'")
        _make_directory("--out", self.out)
        _keep_compiled_programs()
        from sbeed.experiments.figures import theory

        with _progress(len(theory.PANELS), "panels") as advance:
            written = theory.write(self.out, seed=self.seed, progress=advance)
        print("\n".join(str(path) for path in written))
        return 0


COMMANDS: dict[str, Callable[..., Any]] = {"theory": Theory, "figure": Figure}


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of the `sbeed` command.

    Exit code 0: done; 1: a statement does not hold; 2: wrong input; 130: interrupted; 141: nobody reads the output.
    """
    args = list(sys.argv[1:] if args is None else args)
    if args == ["--version"]:
        print(f"sbeed {__version__}")
        return
    try:
        code = _parse(args)()
        sys.stdout.flush()  # so that a closed pipe shows here, not after main
        sys.exit(code)
    except UserError as error:
        print(f"sbeed: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        print(f"sbeed: cannot write: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("sbeed: interrupted", file=sys.stderr)
        sys.exit(130)


def _parse(args: list[str]) -> Theory | Figure:
    """The chosen command with its fields; wrong input becomes one line instead of tyro's box."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            return tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="sbeed", description=DESCRIPTION, args=args)
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_one_line(complaint.getvalue())) from None


def _one_line(box: str) -> str:
    """The sentences inside a framed error message, without the frame and the pointer to --help."""
    rows = [row.strip("│ ").strip() for row in box.splitlines() if not row.startswith(("╭", "╰"))]
    text = re.sub(r"\s+", " ", re.sub(r"\s*─{3,}\s*", "; ", " ".join(rows)))
    text = re.sub(r"invalid literal for int\(\) with base 10: (\S+)", r"expected a whole number, got \1", text)
    return re.sub(r"; For full helptext.*$", "", text).replace("Argument helptext: ", "").strip(" ;.")


def _require(field: str, condition: bool, complaint: str) -> None:
    if not condition:
        raise UserError(f"{field}: {complaint}")


def _make_directory(field: str, path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        writable = os.access(path, os.W_OK)
    except OSError as error:
        raise UserError(f"{field}: cannot create directory '{path}' ({error.strerror})") from None
    _require(field, writable, f"directory '{path}' is not writable")


def _keep_compiled_programs() -> None:
    """XLA's programs are kept in the user's cache directory, so that the second run starts at once."""
    import jax

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sbeed" / "xla"
    jax.config.update("jax_compilation_cache_dir", str(cache))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


@contextlib.contextmanager
def _progress(total: int, unit: str) -> Iterator[Callable[[str], None]]:
    """A bar on stderr; yields a function to call with the name of each thing that is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda name: bar.update(task, advance=1, description=name)


def _print_theory_table(rows: "Sequence[Row]") -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="The paper's statements on random finite MDPs")
    table.add_column("statement", no_wrap=True)
    for column in ("holds on", "least margin", "counterexample", "seconds"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.name,
            f"{row.held}/{row.mdps}" if row.held == row.mdps else f"[bold red]{row.held}/{row.mdps}",
            f"{row.margin:.2g}",
            "fails" if row.counterexample_fails else "[bold red]HOLDS",
            f"{row.seconds:.1f}",
        )
    console = Console()
    console.print(table)
    good = sum(row.holds for row in rows)
    console.print(f"{good} of {len(rows)} statements hold, each with a counterexample that must fail.", highlight=False)
    console.print(
        "Margin: the share of a bound left unused; 0 is tight, 1 is an equality to rounding.", highlight=False
    )
