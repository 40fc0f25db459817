"""Waiting in tests with real processes: for a condition, never for a time that is hoped to be long enough.

There is one limit, and it is generous: on a machine that is busy with other work a limit that is just enough fails, and
says nothing about what is tested. Only a failure takes that long.
"""

import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_S = 90.0
LOOK_EVERY_S = 0.02

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str | Callable[[], object] = "", within_s: float = WITHIN_S) -> T:
    """What the condition says when it says something true; asked again and again until then.

    `what` was waited for in vain: a text, or what makes one, which is asked only then.
    """
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what() if callable(what) else what or condition}")
        time.sleep(LOOK_EVERY_S)
    return found
