"""`sbeed report`: write the results of a folder of figures on one page."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sbeed import __version__
from sbeed.cli.console import complaints, require

if TYPE_CHECKING:
    from sbeed.reporting.figure_results import Results


@dataclass(frozen=True)
class Report:
    """Write report.html: every figure of a directory with its tables, claims and configs, readable offline.

    Unfinished runs are shown up to their last row. The same files give the same page.
    """

    path: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
    """Directory of a figure, or a directory of several figures."""
    pictures: bool = False
    """Also draw the pictures of each figure (curves, iqm, comparison) into its directory, as PNG and SVG."""

    def __call__(self) -> int:
        packages = ("scipy", "matplotlib") if self.pictures else ("scipy",)
        for package in packages:
            require("report", find_spec(package) is not None, f"needs {package}: pip install 'sbeed[plot]'")
        from sbeed.reporting.figure_folder import read_results

        with complaints(OSError, ValueError):
            found = read_results(self.path)
        written = [write_page(self.path, found)]
        if self.pictures:
            from sbeed.reporting import plots

            written += [path for figure in found.figures if figure.panels for path in plots.pictures(figure)]
        print("\n".join(str(path) for path in written))
        return 0


def write_page(path: Path, found: "Results") -> Path:
    """Write the page of these results and return its path."""
    from sbeed.reporting.report_page import PAGE, page
    from sbeed.storage.safe_write import write_file

    if (path / PAGE).is_symlink():  # not followed: the page takes its place
        (path / PAGE).unlink()
    write_file(path / PAGE, page(found, path, __version__).encode())
    return path / PAGE
