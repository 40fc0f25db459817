"""Warnings that clients can cause at will: each is logged once per client and cause, with bounded memory."""

import logging

_REMEMBERED_MAX = 10_000


class LogOncePerClient:
    """Logs a warning the first time that its key is seen. The keys are forgotten after 10,000 of them."""

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
