"""Warnings that clients can cause at will: each is logged once per client and cause, in bounded memory and number."""

import logging
from collections.abc import Callable

_REMEMBERED_MAX = 10_000
LINES_PER_MINUTE_MAX = 100
_MINUTE_MS = 60_000


class LogOncePerClient:
    """Logs a warning the first time that its key is seen, at most 100 in a minute.

    The keys are forgotten after 10,000 of them. How many warnings were left out is logged before the next one.
    """

    def __init__(self, logger: logging.Logger, now_ms: Callable[[], int]) -> None:
        self._logger = logger
        self._now_ms = now_ms
        self._seen: set[int] = set()
        """Hashes, because clients choose how long a key is. Where two are equal, one warning is missing."""
        self._minute = 0
        self._logged = 0
        self._left_out = 0

    def warn(self, key: tuple[str, ...], text: str, *arguments: object) -> None:
        remembered = hash(key)
        if remembered in self._seen:
            return
        if len(self._seen) >= _REMEMBERED_MAX:
            self._seen.clear()
        self._seen.add(remembered)
        if self._may_log():
            self._logger.warning(text, *arguments)

    def _may_log(self) -> bool:
        minute = self._now_ms() // _MINUTE_MS
        if minute != self._minute:
            self._minute, self._logged = minute, 0
        if self._logged >= LINES_PER_MINUTE_MAX:
            self._left_out += 1
            return False
        if self._left_out:
            self._logger.warning("event=warnings_left_out count=%d", self._left_out)
            self._left_out = 0
        self._logged += 1
        return True
