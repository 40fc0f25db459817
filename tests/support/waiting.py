"""Waiting in tests with real processes: for a condition, never for a time that is hoped to be long enough.

There is one limit, and it is generous: on a busy machine a tight limit fails without revealing anything about the code
under test. Only a failure takes that long.
"""

import time
from collections.abc import Callable
from typing import TypeVar

WITHIN_S = 90.0
LOOK_EVERY_S = 0.02

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str | Callable[[], object] = "", within_s: float = WITHIN_S) -> T:
    """Polls the condition until it is true; returns its value.

    `what` names the condition in the failure message: a text, or a function that returns it.
    """
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what() if callable(what) else what or condition}")
        time.sleep(LOOK_EVERY_S)
    return found
