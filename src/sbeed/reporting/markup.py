"""HTML and SVG by construction: all content of an element is escaped, unless it is an element itself."""

import html
from typing import Any

_VOID = {"input", "meta"}  # have no end


class Markup(str):
    """Text that is markup already."""


def element(name: str, /, *inside: Any, **attributes: Any) -> Markup:
    """class_ is class, data_x is data-x; attributes that are None or False are left out."""
    given = {word.rstrip("_").replace("_", "-"): value for word, value in attributes.items()}
    words = "".join(
        f' {word}="{escaped(value)}"' for word, value in given.items() if value is not None and value is not False
    )
    return Markup(f"<{name}{words}>" if name in _VOID else f"<{name}{words}>{joined(*inside)}</{name}>")


def joined(*parts: Any) -> Markup:
    return Markup("".join(escaped(part) for part in parts))


def escaped(part: Any) -> str:
    """Escape text; invisible, direction-changing and unassigned characters become question marks."""
    if isinstance(part, Markup):
        return part
    return html.escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in str(part)))
