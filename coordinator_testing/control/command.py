"""One definition of a command for both shells.

A command is a method that returns steps. In a class that is `Blocking` a call performs them and returns the result; in one that
is `Asynchronous` it returns an awaitable. Type checkers see the one or the other.
"""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from coordinator_testing.control.steps import Steps

P = ParamSpec("P")
T = TypeVar("T")


class Blocking(Protocol):
    """Performs steps, and waits for their end."""

    def run(self, command: Steps[T]) -> T:
        """Performs the steps of a command and returns its result."""


class Asynchronous(Protocol):
    """Performs steps on an event loop."""

    async def run(self, command: Steps[T]) -> T:
        """Performs the steps of a command and returns its result."""


class command(Generic[P, T]):  # noqa: N801 - a decorator
    """Makes a method that returns steps one that performs them."""

    def __init__(self, method: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], Steps[T]]: ...
    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: Asynchronous, owner: type) -> Callable[P, Awaitable[T]]: ...
    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        if instance is None:
            return self._method
        method = self._method

        @functools.wraps(method)
        def perform(*arguments: P.args, **keywords: P.kwargs) -> Any:
            return instance.run(method(instance, *arguments, **keywords))

        return perform
