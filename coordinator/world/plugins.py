"""What other packages bring: objects by entry point, a name in a group of names that a package declares when it is installed.

[project.entry-points."coordinator.assignors"]
nearest = "mine.assignors:Nearest"
"""

from typing import Any

ASSIGNORS = "coordinator.assignors"


class NoSuchPlugin(Exception):
    """Nothing that is installed has this name."""


def load(group: str, name: str) -> Any:
    """What the entry point names; a class is called without arguments. Raises NoSuchPlugin, or what its import raises."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - it takes ten milliseconds, and most starts need none

    found = list(entry_points(group=group, name=name))
    if not found:
        raise NoSuchPlugin(f"no installed package brings {name} as an entry point of {group}")
    brought = found[0].load()
    return brought() if isinstance(brought, type) else brought
