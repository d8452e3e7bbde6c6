# ruff: noqa: E501  the lines of what is written
"""Write src/sbeed/cli/preset_values.py: what each preset sets, so that `--help` can show it without loading jax.

python -m tools.write_presets; a test compares the file with what this writes.
"""

import pprint
from pathlib import Path
from typing import Any

from sbeed.agents.knobs import plain_fields
from sbeed.agents.registry import AGENTS
from sbeed.types import EnvSpec

FILE = Path(__file__).parent.parent / "src" / "sbeed" / "cli" / "preset_values.py"
SPECS = {kind: EnvSpec("Task-v0", 3, kind, 2, 1000) for kind in ("box", "discrete")}  # type: ignore[arg-type]
HEAD = '''"""The values that each preset sets, for `--help`. tools/write_presets.py writes this from the presets: change those."""

# agent -> preset -> field -> value for boxes of actions, and for discrete ones if that is another
VALUES: dict[str, dict[str, dict[str, tuple[object, ...]]]] = '''


def values() -> dict[str, dict[str, dict[str, tuple[Any, ...]]]]:
    return {name: {preset: _of(make) for preset, make in agent.presets.items()} for name, agent in AGENTS.items()}


def _of(make: Any) -> dict[str, tuple[Any, ...]]:
    box, discrete = (plain_fields(make(SPECS[kind])) for kind in SPECS)
    return {name: (value,) if discrete[name] == value else (value, discrete[name]) for name, value in box.items()}


def content() -> str:
    """The text of the file, before ruff formats it."""
    return HEAD + pprint.pformat(values(), width=110, sort_dicts=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(content())
