"""Which processes there are, and which came of which, from /proc."""

from contextlib import suppress
from pathlib import Path


def all_processes() -> list[int]:
    return [int(place.name) for place in Path("/proc").glob("[0-9]*")]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def words_of(pid: int) -> list[str]:
    """Its command; nothing if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


def family(pid: int) -> list[int]:
    """A process and all that came of it, parents first."""
    children: dict[int, list[int]] = {}
    for one in all_processes():
        with suppress(OSError):
            children.setdefault(parent_of(one), []).append(one)
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found
