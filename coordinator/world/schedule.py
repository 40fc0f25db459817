"""Callbacks after a delay."""

from collections.abc import Callable
from typing import Protocol


class Handle(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None: ...


Schedule = Callable[[int, Callable[[], None]], Handle]
"""`schedule(delay_ms, callback)`; the callback runs once, on the loop, unless the handle is cancelled."""
