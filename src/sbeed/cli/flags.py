"""Turn a dataclass of `knob`s into flags: a field's meaning, range and paper value become its line of --help."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import Field, asdict, fields, make_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from sbeed.agents.knobs import help_line


def dashed(name: str) -> str:
    return name.replace("_", "-")


def flags_of(kind: type, about: str, *, default: Callable[[str], str]) -> Any:
    """Make a dataclass with the same fields, None where no flag is given.

    about: their title in --help. default: what --help shows as a field's default
    """
    kinds = get_type_hints(kind)
    optional = [
        (f.name, Annotated[kinds[f.name] | None, _flag(f, kinds[f.name], default(f.name))], None) for f in fields(kind)
    ]
    return make_dataclass(kind.__name__, optional, frozen=True, namespace={"__doc__": about})


def own_default(kind: type) -> Callable[[str], str]:
    """The default that the class itself gives a field."""
    defaults = {field.name: str(field.default) for field in fields(kind)}
    return lambda name: defaults[name]


def preset_value(agent: str, preset: str, name: str) -> str:
    """The value that the preset gives a field; an unknown preset is told of elsewhere."""
    from sbeed.cli.preset_values import VALUES

    presets = VALUES[agent]
    box, *discrete = (_text(value) for value in presets.get(preset, presets["default"])[name])
    return f"{box}; {discrete[0]} for discrete actions" if discrete else box


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def given(flags: Any) -> dict[str, Any]:
    """The flags that were given, with their values."""
    return {name: value for name, value in asdict(flags).items() if value is not None}


def switches(kind: type) -> set[str]:
    return {name for name, hint in get_type_hints(kind).items() if hint is bool}


def whole_fields(*kinds: type) -> set[str]:
    """The fields of these classes that hold whole numbers."""
    wholes = (int, int | None, tuple[int, ...])
    return {f.name for kind in kinds for f in fields(kind) if get_type_hints(kind)[f.name] in wholes}


def spell_out(args: Sequence[str], switches: Collection[str]) -> list[str]:
    """Replace --squash and --no-squash by --squash True and --squash False.

    A switch of the parser has two states; a switch that may be left to the preset has three.
    """
    words = {f"--{no}{dashed(name)}": [f"--{dashed(name)}", str(not no)] for name in switches for no in ("", "no-")}
    spelled = []
    for arg, following in zip(args, [*args[1:], ""]):
        spelled += [arg] if following in ("True", "False") else words.get(dashed(arg), [arg])
    return spelled


def _flag(field: Field, kind: Any, default: str) -> Any:
    about = help_line(field.metadata)
    if kind is bool:
        about += f"; or --no-{dashed(field.name)}"
    hint = f"(default: {default})" if default else ""
    return tyro.conf.arg(help=about, metavar=metavar(kind), help_behavior_hint=hint)


def metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "{" + ",".join(get_args(kind)) + "}"
    if get_origin(kind) is tuple:
        return "INT [INT ...]"
    inner = next((part for part in get_args(kind) if part is not type(None)), kind)
    return {bool: "", int: "INT", float: "FLOAT", str: "NAME"}[inner]
