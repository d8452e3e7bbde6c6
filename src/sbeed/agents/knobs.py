"""Config fields that explain and check themselves; free of jax, so that `--help` can read them."""

import contextlib
import difflib
import math
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sbeed.agents.peers import answer


def knob(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    open: bool = False,
    paper: str | None = None,
) -> Any:
    """A dataclass field with its meaning, its range and the paper's value.   open: the ends themselves are excluded."""
    meta = {"help": help, "low": low, "high": high, "open": open, "paper": paper}
    return field(default=default, metadata=meta)


def help_line(meta: Any) -> str:
    """One line for `--help` and the docs: what the knob does, its range and the paper's value."""
    return "; ".join(part for part in (meta["help"], _range(meta), meta["paper"] and f"paper: {meta['paper']}") if part)


def with_fields(config: Any, changes: Mapping[str, Any]) -> Any:
    """Replace fields of the config by values from a flag, a YAML or JSON file or a keyword.

    Values are converted to the field's type: a list to a tuple, a whole number to a float, and text such as 1e-3,
    which YAML does not read as a number, to a number. An unknown name or another type is a one-line ValueError.
    `check_ranges` checks the ranges.
    """
    kinds = get_type_hints(type(config))
    for name in changes:
        if name not in kinds:
            close = difflib.get_close_matches(name, kinds, n=3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"the names are {', '.join(kinds)}"
            raise ValueError(f"{name}: no such field; {answer(name, kinds) or hint}")
    return replace(config, **{name: converted(name, value, kinds[name]) for name, value in changes.items()})


def converted(name: str, value: Any, kind: Any) -> Any:
    """Convert the value to that type, or raise a one-line ValueError."""
    parts = get_args(kind)
    if type(None) in parts:
        return None if value is None else converted(name, value, parts[0])
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(converted(name, part, parts[0]) for part in value)
    if isinstance(value, str) and get_origin(kind) is Literal:
        return value
    if isinstance(value, bool) is (kind is bool):  # Python counts True as a number
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            number = kind(value)
            if kind is float or number == value:
                return number
    wanted = {int: "a whole number", float: "a number", bool: "true or false"}.get(
        kind, "a list of whole numbers" if get_origin(kind) is tuple else "text"
    )
    raise ValueError(f"{name}: expected {wanted}, got {reprlib.repr(value)}")


def whole_number(name: str, value: Any, low: int = 1) -> int:
    """Convert the value, which may be numpy's or 1e6, to an integer of [low, 2^32), or raise a one-line ValueError."""
    number = converted(name, value, int)
    if not low <= number < 2**32:
        raise ValueError(f"{name}: must lie in [{low}, 2^32), got {number}")
    return number


def plain_fields(config: Any) -> dict[str, Any]:
    """The config as a dict for YAML and JSON: lists in place of tuples."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(config).items()}


def check_ranges(config: Any) -> None:
    """Raise a one-line ValueError that names the first field outside its range."""
    kinds = get_type_hints(type(config))
    for f in fields(config):
        value, kind, meta = getattr(config, f.name), kinds[f.name], f.metadata
        if get_origin(kind) is Literal and value not in get_args(kind):
            raise ValueError(f"{f.name}: must be one of {', '.join(get_args(kind))}, got {value!r}")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int | float) and not _inside(number, meta):
                raise ValueError(f"{f.name}: must lie in {_range(meta) or '(-inf, inf)'}, got {number}")


def _inside(number: float, meta: Any) -> bool:
    low = -math.inf if meta["low"] is None else meta["low"]
    high = math.inf if meta["high"] is None else meta["high"]
    within = low < number < high if meta["open"] else low <= number <= high
    return within and abs(number) < math.inf  # math.isfinite takes no integer of 400 digits


def _range(meta: Any) -> str:
    low, high, ends = meta["low"], meta["high"], "()" if meta["open"] else "[]"
    if low is None and high is None:
        return ""
    left = "(-inf" if low is None else f"{ends[0]}{low:g}"
    return f"{left}, inf)" if high is None else f"{left}, {high:g}{ends[1]}"
