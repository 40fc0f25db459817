"""Warnings that a client can cause at will are said once per client and cause, and the memory of that is bounded."""

import logging

_REMEMBERED_MAX = 10_000


class LogOncePerClient:
    """Logs a warning the first time its key is seen."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._seen: dict[tuple[str, ...], None] = {}

    def warn(self, key: tuple[str, ...], text: str, *arguments: object) -> None:
        if key in self._seen:
            return
        if len(self._seen) >= _REMEMBERED_MAX:
            self._seen.clear()
        self._seen[key] = None
        self._logger.warning(text, *arguments)
