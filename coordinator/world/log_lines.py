"""The server's log: one line of `key=value` fields per record, whatever the names are that clients choose.

A log call has a constant text and arguments: `_log.warning("event=connection_closed client=%s reason=%s", client, reason)`.
The text is ours. No argument is trusted: the formatter cuts each one, escapes what is not printable, and puts it in quotes
unless it is one plain word. So a name can neither begin a line nor add a field nor reach a terminal as an escape sequence, and
a line has a bounded length. Texts of other libraries, which carry names already, are cut and escaped as a whole.

Tracebacks are the only text of several lines. Their lines are indented, so none can be taken for a record.
"""

import json
import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

ARGUMENT_MAX = 500
"""Characters of an argument, and of a line of a traceback, before it is cut."""
TEXT_MAX = 8_000
"""Characters of a record's text before it is cut."""
TRACEBACK_LINES_MAX = 200
"""The first and the last lines of a longer traceback are kept."""
_INDENT = "    "
_MINUTE_S = 60.0
_RETRYING = ("coordinator.cluster.engine", "coordinator.cluster.workers", "coordinator.overlay", "coordinator.watch")
"""The loggers of what asks other machines again and again, and would fill the log while those are away."""
_as_json = json.JSONEncoder(default=str).encode
"""Like json.dumps, which would make an encoder for every call."""


class KeyValueFormatter(logging.Formatter):
    """Formats a record as `time=... level=... logger=... event=...`."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)

    def __init__(self, fields: str = "") -> None:
        """`fields`: what each line has behind its time, such as `worker=2`."""
        super().__init__()
        self._fields = f"{fields} " if fields else ""

    def format(self, record: logging.LogRecord) -> str:
        level, logger = record.levelname.lower(), record.name.removeprefix("coordinator.")
        line = f"time={self.formatTime(record)} {self._fields}level={level} logger={logger} {record_text(record)}"
        if record.exc_info:
            line += f"\n{_indented(self.formatException(record.exc_info))}"
        return line


class OncePerMinute(logging.Filter):
    """Of what fails again and again (`_RETRYING`) for the same reason, one line a minute passes.

    It says how many did not. The reason is the exception or, of a line without one, the last argument.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}
        """When a line passed, and how many did not since, by text and reason."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line passes."""
        if not record.name.startswith(_RETRYING) or not ("reason=" in str(record.msg) or record.exc_info):
            return True
        arguments = record.args if isinstance(record.args, tuple) else ()
        line = str(record.msg), str(record.exc_info[1:2] if record.exc_info else arguments[-1:])
        oldest_s = record.created - _MINUTE_S
        passed_s, left_out = self._passed.get(line, (oldest_s, 0))
        if passed_s > oldest_s:
            self._passed[line] = passed_s, left_out + 1
            return False
        self._passed = {each: passed for each, passed in self._passed.items() if passed[0] > oldest_s}
        self._passed[line] = record.created, 0
        if left_out:
            record.msg, record.args = f"{record.msg} left_out=%d", (*arguments, left_out)
        return True


def log_to_stderr(fields: str = "") -> None:
    """Writes the log of this process to stderr. `fields`: as `KeyValueFormatter` has them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(KeyValueFormatter(fields))
    handler.addFilter(OncePerMinute())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def record_text(record: logging.LogRecord) -> str:
    """A record's text with its arguments as fields: printable, on one line."""
    text, arguments = str(record.msg), record.args
    if isinstance(arguments, Mapping) and "%(" in text:
        text %= {name: _argument(value) for name, value in arguments.items()}
    elif arguments:
        # logging unpacks a single argument that is a mapping.
        text %= tuple(map(_argument, arguments if isinstance(arguments, tuple) else (arguments,)))
    return printable(_cut(text, TEXT_MAX))


def printable(text: str) -> str:
    """The text with escapes for everything that is not printable: controls, line ends, marks of direction, surrogates."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _argument(value: Any) -> Any:
    """What takes the place of an argument. Numbers stay numbers, for `%d`."""
    if isinstance(value, bool) or value is None:
        return _as_json(value)
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple | Mapping):
        return _cut(_as_json(value), ARGUMENT_MAX)
    return _field(_cut(str(value), ARGUMENT_MAX))


def _field(text: str) -> str:
    """The text as it is if it is a plain word, else in quotes."""
    if text and text.isprintable() and not any(each in ' "=\\' for each in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{printable(escaped)}"'


def _cut(text: str, length_max: int) -> str:
    return text if len(text) <= length_max else f"{text[:length_max]}...({len(text)} characters)"


def _indented(traceback: str) -> str:
    lines = traceback.split("\n")
    if len(lines) > TRACEBACK_LINES_MAX:
        half = TRACEBACK_LINES_MAX // 2
        lines = [*lines[:half], f"({len(lines) - 2 * half} lines are left out)", *lines[-half:]]
    return "\n".join(_INDENT + printable(_cut(line, ARGUMENT_MAX)) for line in lines)
