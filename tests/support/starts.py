"""Markers that say what a test starts, and a guard that keeps them true.

The markers are found in the code that a test and its fixtures reach. A module of tests/support that starts something
declares it (`TEST_MARKERS = ("java",)`); direct calls of `subprocess` and the like are seen. A test whose code cannot show
it, because the server starts a process of its own, or a parameter chooses what runs, carries a marker. The guard fails each
test that starts a program without the marker for it, so `-m "not process"` cannot start one.
"""

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

IMPLIED = {
    "process": (),
    "java": ("process",),
    "kafka": ("process", "java"),
    "spark": ("process", "java"),
    "database": ("process",),
    "browser": ("process",),
    "foreign": ("process",),
}
"""Each marker, and those that it implies."""
STARTING_MODULES = {
    "coordinator.cluster.supervisor.processes": "process",
    "coordinator_testing.certify.programs": "process",
    "coordinator_testing.certify.server": "process",
    "coordinator_testing.pytest_plugin": "process",
    "coordinator_testing.throwaway_server": "process",
    "multiprocessing": "process",
    "playwright": "browser",
    "pyspark": "spark",
}
CALLS = {"subprocess": {"run", "Popen", "check_call", "check_output"}, "os": {"fork", "posix_spawn"}}
PROGRAMS = {
    "cargo": ("foreign",), "dotnet": ("foreign",), "go": ("foreign",), "initdb": ("database",), "java": ("java",),
    "javac": ("java",), "mvn": ("java",), "node": ("foreign", "browser"), "npm": ("foreign", "browser"),
    "postgres": ("database",), "spark-submit": ("spark",),
}  # fmt: skip
"""The markers that permit to start a program, one of which a test must have."""


def mark(items: Iterable[pytest.Item]) -> None:
    """Adds to each test the markers of what it and its fixtures start."""
    for item in items:
        found: set[str] = set()
        if isinstance(item, pytest.Function):
            fixtures = (each for name in item.fixturenames for each in item._fixtureinfo.name2fixturedefs.get(name, ()))
            for function in (item.function, *(fixture.func for fixture in fixtures)):
                found |= started_by(function)
        found |= {marker.name for marker in item.iter_markers() if marker.name in IMPLIED}
        for name in found.union(*(IMPLIED[each] for each in found)):
            item.add_marker(name)


@functools.cache
def started_by(function: Any) -> frozenset[str]:
    """What the code that a function can reach inside tests/ starts."""
    return frozenset(_walk(function, set()))


def _walk(target: Any, seen: set[int]) -> Iterator[str]:
    if id(target) in seen:
        return
    seen.add(id(target))
    module = target.__name__ if isinstance(target, ModuleType) else getattr(target, "__module__", None)
    if not isinstance(module, str):
        return
    yield from (kind for name, kind in STARTING_MODULES.items() if f"{module}.".startswith(f"{name}."))
    if not module.startswith("tests."):
        return
    if isinstance(target, functools.partial):
        yield from _walk(target.func, seen)
    elif isinstance(target, type):
        for value in (*target.__bases__, *vars(target).values()):
            yield from _walk(getattr(value, "fget", None) or getattr(value, "func", value), seen)
    elif callable(target):
        yield from getattr(sys.modules.get(module), "TEST_MARKERS", ())
        inner = getattr(target, "hypothesis", None)
        function = inspect.unwrap(inner.inner_test if inner else getattr(target, "__func__", target))
        if isinstance(function, FunctionType):
            for cell in function.__closure__ or ():
                yield from _walk(_content(cell), seen)
            yield from _walk_code(function.__code__, function.__globals__, seen)


def _walk_code(code: CodeType, names_of_module: dict[str, Any], seen: set[int]) -> Iterator[str]:
    names = set(_names(code))
    if any("create_subprocess_" in name for name in names):
        yield "process"
    for name in names:
        # what a function imports itself is among its names, as the name of a module
        value = names_of_module.get(name, sys.modules.get(name))
        if isinstance(value, ModuleType):
            if names & CALLS.get(value.__name__, set()):
                yield "process"
            if value.__name__.startswith("tests."):
                for attribute in names:
                    yield from _walk(vars(value).get(attribute), seen)
        if value is not None:
            yield from _walk(value, seen)
        elif name.partition(".")[0] in STARTING_MODULES:
            yield STARTING_MODULES[name.partition(".")[0]]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


class Guard:
    """Refuses to start a program while a test runs that does not say that it starts one."""

    def __init__(self) -> None:
        self.permitted: set[str] | None = None
        self.refused: list[str] = []
        sys.addaudithook(self._audit)
        # uvloop starts processes without an audit event
        self._exec, self._shell = asyncio.create_subprocess_exec, asyncio.create_subprocess_shell
        asyncio.create_subprocess_exec = self._checked(self._exec)
        asyncio.create_subprocess_shell = self._checked(self._shell)

    def watch(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """A hook wrapper: the setup or call of a test."""
        self.permitted = {marker.name for marker in item.iter_markers() if marker.name in IMPLIED}
        self.refused.clear()
        try:
            result = yield
        finally:
            self.permitted = None
        assert not self.refused, f"the test starts programs and has no marker for them: {self.refused}"
        return result

    def _checked(self, start: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(start)
        def checked(program: Any, *arguments: Any, **options: Any) -> Any:
            self._check(program)
            return start(program, *arguments, **options)

        return checked

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.permitted is None:
            return
        if event in ("subprocess.Popen", "os.posix_spawn"):
            self._check(arguments[0])
        elif event in ("os.fork", "os.forkpty"):
            self._check("fork")

    def _check(self, program: Any) -> None:
        if self.permitted is None:
            return
        name = Path(str(program)).name
        needed = PROGRAMS.get(name, ("process",))
        if not self.permitted.intersection(needed):
            self.refused.append(name)
            raise PermissionError(f"this test starts {name} and has none of the markers {', '.join(needed)}")
