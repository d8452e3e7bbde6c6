"""Tables of the page."""

from collections.abc import Iterable, Sequence
from typing import Any

from sbeed.experiments.markup import Markup, element


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Iterable[int] = ()) -> Markup:
    """numbers: columns that are"""
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
    caption = element("caption", title) if title else ""
    return scrolling(element("table", caption, element("thead", head), element("tbody", *body)), title or "runs")


def scrolling(table: Markup, title: str) -> Markup:
    """A wide table scrolls by itself, the page never; by keys too."""
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=title)
