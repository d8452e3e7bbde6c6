"""`sbeed theory`: check the paper's statements."""

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sbeed.cli.console import counting, require, say

if TYPE_CHECKING:
    from sbeed.theory.report import Row

MOST_MDPS = 100_000


@dataclass(frozen=True)
class Theory:
    """Check every statement of the paper on random finite MDPs. Exit code 1 if one fails."""

    mdps: int = 200
    """Random MDPs per algebraic statement, 1 to 100000; asymptotic ones use a tenth, averages at least 20."""
    seed: int = 0
    """Seed of the MDPs and of the points at which statements are checked, at least 0."""
    only: tuple[str, ...] | None = None
    """Names of the statements to check, at least one; without this flag, all of them."""
    json: bool = False
    """Print a JSON list of rows on stdout instead of the table."""
    price: bool = False
    """Count the steps that Algorithm 1 takes in each distance instead, in minutes; prints a Markdown table."""

    def __call__(self) -> int:
        require("--mdps", 1 <= self.mdps <= MOST_MDPS, f"must lie in 1..{MOST_MDPS}, got {self.mdps}")
        require("--seed", 0 <= self.seed < 2**32, f"must lie in [0, 2^32), got {self.seed}")
        if self.price:
            return self._price()
        from sbeed.theory.claims import STATEMENTS

        names = [statement.name for statement in STATEMENTS]
        require("--only", self.only != (), f"name at least one of {', '.join(names)}")
        for name in self.only or ():
            require("--only", name in names, f"no statement is named '{name}'; choose from {', '.join(names)}")
        from sbeed.theory import report
        from sbeed.training.compile_cache import keep_compiled_programs

        keep_compiled_programs()

        statements = [s for s in STATEMENTS if self.only is None or s.name in self.only]
        with counting(len(statements), "statements") as advance:
            rows = report.run(statements, mdps=self.mdps, seed=self.seed, on_row=lambda row: advance(row.name))
        if self.json:
            found = [{**row.as_dict(), "says": statement.says} for statement, row in zip(statements, rows)]
            say(json_module.dumps(found, indent=1, allow_nan=False))
        else:
            _print_table(rows)
        return 0 if all(row.holds for row in rows) else 1

    def _price(self) -> int:
        require("--price", self == Theory(seed=self.seed, price=True), "goes with no other flag than --seed")
        from sbeed.theory import price

        with counting(len(price.SETTINGS), "settings") as advance:
            lines = list(price.table(self.seed, on_row=advance))
        say("\n".join(lines))
        return 0


def _print_table(rows: "Sequence[Row]") -> None:
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
    console.print("Margin: the unused share of a bound; 0 is tight, 1 is an equality up to rounding.", highlight=False)
