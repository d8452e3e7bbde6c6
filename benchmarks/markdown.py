"""Tables of a page."""

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns are aligned, for it is read in a terminal too."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = ["-" * width for width in widths]
    return "".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |\n"
        for line in (lines[0], rule, *lines[1:])
    )
