# ruff: noqa: E501  the lines of what is written
"""Write src/sbeed/api/settings.py: the keywords of each agent, for type checkers, from the fields of its configs.

python -m tools.write_settings; a test compares the file with what this writes.
"""

import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from sbeed.agents.configs import FORMS
from sbeed.api import DDPG, PCL, SAC, SBEED, TRPO, Algorithm, DualAC
from sbeed.api.algorithm import POLICIES

FILE = Path(__file__).parent.parent / "src" / "sbeed" / "api" / "settings.py"
HEAD = '''"""The agents' keywords, for type checkers. tools/write_settings.py writes this from the configs: change those."""

from collections.abc import Sequence
from typing import Literal, TypedDict

from sbeed.api.algorithm import Algorithm
from sbeed.envs.task import OneEnv
from sbeed.training.experience import Rule


class Options(TypedDict, total=False):
    """Keywords that all agents share."""

    seed: int | None
    eval_env: OneEnv | None
    behaviour: Algorithm | Rule | Literal["current"]
    noise: float
'''


def content() -> str:
    """The text of the file, formatted as ruff does."""
    return "\n\n".join([HEAD.rstrip() + "\n", *(_settings(kind) for kind in (SBEED, PCL, TRPO, DualAC, DDPG, SAC))])


def _settings(kind: type[Algorithm]) -> str:
    forms = {form: get_type_hints(form) for form in FORMS[kind.agent.name].values()}
    hints: dict[str, list[Any]] = {}
    for form in forms.values():
        for name, hint in form.items():
            hints.setdefault(name, []).append(hint)
    policies = POLICIES if "policy" in hints else ["MlpPolicy"]
    hints.pop("policy", None)  # it is an argument of its own
    lines = [
        f"{kind.__name__}Policy = {_literal(policies)}",
        "",
        "",
        f"class {kind.__name__}Settings(Options, total=False):",
        f'    """Keywords of `{kind.__name__}`."""',
        "",
        f"    preset: {_literal(kind.agent.presets)}",
        *(f"    {name}: {_union(some)}" for name, some in hints.items()),
    ]
    return "\n".join(lines) + "\n"


def _union(hints: Iterable[Any]) -> str:
    """The annotation of a keyword that may have any of these types; Literals become one."""
    parts = [part for hint in hints for part in _parts(hint)]
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    others = [_text(part) for part in parts if get_origin(part) is not Literal]
    return " | ".join(dict.fromkeys([*([_literal(words)] if words else []), *others]))


def _parts(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _text(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return f"Sequence[{_text(get_args(hint)[0])}]"
    return "None" if hint is type(None) else hint.__name__


def _literal(words: Iterable[str]) -> str:
    return "Literal[" + ", ".join(f'"{word}"' for word in dict.fromkeys(words)) + "]"


if __name__ == "__main__":
    FILE.write_text(content())
