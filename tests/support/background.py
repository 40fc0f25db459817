"""Threads of tests. One that hangs, in a client library for example, fails its test and keeps no process from ending."""

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

from tests.support.waiting import WITHIN_S


class Background:
    """Calls `target(*arguments)` in a thread of its own. What it raises fails the test, as pytest does it for threads."""

    def __init__(self, target: Callable[..., object], *arguments: Any) -> None:
        self._thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def finish(self, within_s: float = WITHIN_S) -> None:
        """Waits until the call has returned. Raises AssertionError, with what the thread does, if it takes longer."""
        self._thread.join(within_s)
        frame = sys._current_frames().get(self._thread.ident or 0)
        if self._thread.is_alive() and frame is not None:
            raise AssertionError(f"a thread did not end within {within_s} s:\n{''.join(traceback.format_stack(frame))}")
