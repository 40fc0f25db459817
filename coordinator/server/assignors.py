"""The assignors that members of consumer groups can choose: built in, or brought by an installed package as an entry point.

[project.entry-points."coordinator.assignors"]
nearest = "mine.assignors:Nearest"
"""

from collections.abc import Sequence
from typing import Any

from coordinator.groups.assignors.assignor import Assignor
from coordinator.groups.state import BUILT_IN_ASSIGNORS
from coordinator.server import CannotStart

ENTRY_POINTS = "coordinator.assignors"


class NoSuchAssignor(Exception):
    """No installed package provides an entry point of this name."""


def load_assignors(names: Sequence[str]) -> dict[str, Assignor]:
    """Finds the assignors by name, in this order. Raises CannotStart for one that no package provides."""
    assignors: dict[str, Assignor] = {}
    for name in names:
        built_in = BUILT_IN_ASSIGNORS.get(name)
        try:
            assignors[name] = _load(name) if built_in is None else built_in
        except Exception as error:
            raise CannotStart(f"group.consumer.assignors: {name}: {type(error).__name__}: {error}") from error
        if not callable(getattr(assignors[name], "assign", None)):
            raise CannotStart(f"group.consumer.assignors: {name} has no method `assign`")
    return assignors


def _load(name: str) -> Any:
    """The object behind the entry point; a class is instantiated without arguments.

    Raises NoSuchAssignor, and any exception of importing the package.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - importing takes ten milliseconds, and most starts do not need it

    found = list(entry_points(group=ENTRY_POINTS, name=name))
    if not found:
        raise NoSuchAssignor(f"no installed package provides {name} as an entry point of {ENTRY_POINTS}")
    brought = found[0].load()
    return brought() if isinstance(brought, type) else brought
