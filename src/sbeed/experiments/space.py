"""The space of a search: the paper's grids, or ranges and lists of values of any field."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, get_origin, get_type_hints

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from sbeed.agents.configs import check_names, config_of
from sbeed.agents.knobs import check_ranges, converted, with_fields
from sbeed.agents.sbeed.grids import PAPER_GRIDS

TOGETHER = {"learning_rate": ("V_step_size", "dual_step_size")}  # the paper has one rate for both

Space: TypeAlias = Mapping[str, BaseDistribution]


def paper_space(agent: str, preset: str, fits: Callable[[Mapping[str, Any]], bool]) -> Space:
    """The paper's grids of the fields that the preset has, reduced to the values that fit its other settings."""
    known = set(get_type_hints(config_of(agent, preset)))
    grids = {name: grid for name, grid in PAPER_GRIDS.items() if known.issuperset(TOGETHER.get(name, (name,)))}
    fitting = {name: [value for value in grid if fits(fields_of({name: value}))] for name, grid in grids.items()}
    return {name: CategoricalDistribution(values) for name, values in fitting.items() if values}


def read_space(agent: str, preset: str, words: Iterable[str]) -> Space:
    """'lam=0.001..0.1' is a range, in logarithms if it spans a factor of ten; 'k=1,10,20' is a list."""
    space: dict[str, BaseDistribution] = {}
    for name, values in (_read_field(agent, preset, word) for word in words):
        if name in space:
            raise ValueError(f"{name}: is named twice; give all its values at once, as a range or as a list")
        space[name] = values
    return space


def _read_field(agent: str, preset: str, word: str) -> tuple[str, BaseDistribution]:
    config = config_of(agent, preset)
    name, equals, values = word.partition("=")
    name, kinds = name.replace("-", "_"), get_type_hints(config)
    low, dots, high = values.partition("..")
    if not (equals and values):
        raise ValueError(f"{word}: must be a field and its values, such as lam=0.001..0.1 or k=1,10,20")
    if name not in kinds:
        check_names(agent, preset, [name])
        with_fields(config(), {name: None})  # which says what names there are
    kind = kinds[name]
    if get_origin(kind) is tuple:
        raise ValueError(f"{name}: holds several numbers, which cannot be searched")
    some = [_value(config, name, text, kind) for text in ([low, high] if dots else values.split(","))]
    if not dots:
        return name, CategoricalDistribution(some)
    if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in some) or some[0] >= some[1]:
        raise ValueError(f"{name}: a range goes from a number to a larger one, got {values}")
    (first, last), wide = some, 0 < 10 * some[0] <= some[1]
    if isinstance(first, int):
        return name, IntDistribution(first, last, log=wide)
    return name, FloatDistribution(first, last, log=wide)


def _value(config: type, name: str, text: str, kind: Any) -> Any:
    found: Any = {"true": True, "false": False}.get(text, text)
    with suppress(ValueError):
        found = int(text)
    found = converted(name, found, kind)
    check_ranges(with_fields(config(), {name: found}))
    return found


def fields_of(params: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for name, value in params.items() for field in TOGETHER.get(name, (name,))}
