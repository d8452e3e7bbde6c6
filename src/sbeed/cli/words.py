"""Read what the user typed before the parser does: large numbers, and the words of other libraries."""

import difflib
import re
from collections.abc import Collection, Iterable, Sequence

from sbeed.agents.peers import answer

_SCIENTIFIC = re.compile(r"\d[\d_]*(\.\d+)?[eE]\+?\d{1,2}")


def whole_numbers(args: Sequence[str], names: Collection[str]) -> list[str]:
    """Write 1e6 out as 1000000 where one of these flags, which take whole numbers, has it."""
    written, flag = [], ""
    for arg in args:
        name, equals, value = arg.partition("=")
        if arg.startswith("--"):
            flag = name.removeprefix("--").replace("-", "_")
        text = value if equals else arg
        if flag in names and _SCIENTIFIC.fullmatch(text) and float(text).is_integer():
            arg = f"{name}=" * bool(equals) + str(int(float(text)))
        written.append(arg)
    return written


def names_a_module(args: Sequence[str]) -> bool:
    """True if the user typed an environment or a wrapper that is in a module: module:Name."""
    flag = ""
    for arg in args:
        name, equals, value = arg.partition("=")
        flag = name if arg.startswith("--") else flag
        text = value if equals and arg.startswith("--") else arg
        if flag in ("--env", "--eval-env", "--wrapper") and ":" in text and not text.startswith("jax:"):
            return True
    return False


def hint(args: Sequence[str], commands: Iterable[str], fields: Collection[str]) -> str | None:
    """One sentence on a word that the parser refused, if it is known elsewhere or close to one of ours."""
    if args and not args[0].startswith("-") and args[0] not in (commands := list(commands)):
        close = difflib.get_close_matches(args[0], commands, n=2)
        return f"did you mean {' or '.join(close)}?" if close else None
    for arg in args:
        name = arg.partition("=")[0].removeprefix("--").replace("-", "_")
        said = answer(name, fields, flag=True) if arg.startswith("--") and name not in fields else None
        if said:
            return f"{arg.partition('=')[0]}: {said}"
    return None
