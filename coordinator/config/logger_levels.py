"""The levels of the server's loggers, the configs of the resource BROKER_LOGGER: altered at once, and lost with the process."""

import logging
from collections.abc import Mapping, Sequence

from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.topics.topic_settings import ConfigValue

_SOURCE_LOGGER = 6
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_LEVEL_NAMES = {level: name for name, level in _LEVELS.items()}
_ROOT = "root"


def describe(others: Sequence[str]) -> list[ConfigValue]:
    """The level of each logger. `others`: loggers whose names do not begin with the server's package."""
    return [
        ConfigValue(logger, _LEVEL_NAMES.get(_logger(logger).getEffectiveLevel(), "INFO"), _SOURCE_LOGGER)
        for logger in _loggers(others)
    ]


def alter(others: Sequence[str], changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Sets levels; None removes one. Raises INVALID_CONFIG, INVALID_REQUEST."""
    for logger, level in changes.items():
        _check_level(others, logger, level)
    if not validate_only:
        for logger, level in changes.items():
            _logger(logger).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _loggers(others: Sequence[str]) -> list[str]:
    """The root logger, and every logger of this server that has been used, with these others."""
    ours = __name__.partition(".")[0]
    known = logging.root.manager.loggerDict
    return [_ROOT, *sorted(name for name in known if name == ours or name in others or name.startswith(f"{ours}."))]


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == _ROOT else name)


def _check_level(others: Sequence[str], logger: str, level: str | None) -> None:
    if logger not in _loggers(others):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if level is None and logger == _ROOT:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    if level is not None and level not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}",
        )
