"""Plugins: objects that installed packages provide as entry points, by group and name.

[project.entry-points."coordinator.assignors"]
nearest = "mine.assignors:Nearest"
"""

from typing import Any

ASSIGNORS = "coordinator.assignors"


class NoSuchPlugin(Exception):
    """No installed package provides an entry point of this name."""


def load(group: str, name: str) -> Any:
    """The object behind the entry point; a class is instantiated without arguments.

    Raises NoSuchPlugin, and any exception of importing the package.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - importing takes ten milliseconds, and most starts do not need it

    found = list(entry_points(group=group, name=name))
    if not found:
        raise NoSuchPlugin(f"no installed package provides {name} as an entry point of {group}")
    brought = found[0].load()
    return brought() if isinstance(brought, type) else brought
