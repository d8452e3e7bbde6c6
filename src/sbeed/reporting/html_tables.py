"""Tables of the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from sbeed.reporting.markup import Markup, element, joined


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> Markup:
    """A table.   numbers: the columns that hold numbers"""
    right = {i: "n" for i in numbers}
    head = element("tr", *(element("th", name, scope="col", class_=right.get(i)) for i, name in enumerate(columns)))
    body = [
        element(
            "tr",
            element("th", first, scope="row"),
            *(element("td", cell, class_=right.get(i)) for i, cell in enumerate(rest, 1)),
        )
        for first, *rest in rows
    ]
    return titled(title, element("table", element("thead", head), element("tbody", *body)))


def titled(title: str, table: Markup) -> Markup:
    """A wide table scrolls by itself, by keys too; the page and the title never do."""
    scrolling = element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
    return joined(element("h4", title), scrolling)
