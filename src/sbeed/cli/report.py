"""`sbeed report`: write the results of a folder of figures on one page."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sbeed import __version__
from sbeed.cli.console import complaints, require, say

if TYPE_CHECKING:
    from sbeed.reporting.figure_results import Results


@dataclass(frozen=True)
class Report:
    """Write report.html: every figure of a directory, or all its runs, with tables and configs, readable offline.

    Unfinished runs are shown up to their last row. The same files give the same page.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Directory of a figure, of several figures, or of any runs."""
    pictures: bool = False
    """Also draw the pictures of each figure (curves, iqm, comparison) into its directory, as PNG and SVG."""

    def __call__(self) -> int:
        packages = ("scipy", "matplotlib") if self.pictures else ("scipy",)
        for package in packages:
            require("report", find_spec(package) is not None, f"needs {package}: pip install 'sbeed[plot]'")
        with complaints(OSError, ValueError):
            found = read_any(self.path)
        written = [write_page(self.path, found)]
        if self.pictures:
            from sbeed.reporting import plots

            written += [path for figure in found.figures if figure.panels for path in plots.pictures(figure)]
        say("\n".join(str(path) for path in written))
        return 0


def read_any(path: Path) -> "Results":
    """Read the figures, claims and theory in a directory; if there are none, its runs."""
    from sbeed.reporting.figure_folder import read_results
    from sbeed.reporting.figure_results import Results
    from sbeed.reporting.run_folder import read_runs

    try:
        return read_results(path)
    except FileNotFoundError as nothing:
        runs = read_runs(path) if path.is_dir() else None
        if runs is None:
            raise FileNotFoundError(f"{nothing}; nor does it hold a run") from None
        return Results([runs], [], [])


def write_page(path: Path, found: "Results") -> Path:
    """Write the page of these results and return its path."""
    from sbeed.reporting.report_page import PAGE, page
    from sbeed.storage.safe_write import write_file

    if (path / PAGE).is_symlink():  # not followed: the page takes its place
        (path / PAGE).unlink()
    write_file(path / PAGE, page(found, path, __version__).encode())
    return path / PAGE
