"""How the value of a setting is read, from YAML or from text, and what is allowed, in words."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from coordinator.groups.kinds import LABELS, Kind
from coordinator.groups.settings import OFF, STICKY

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
GROUPS_NAMED_MAX = 100
"""Groups that have metrics of their own."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Parser(NamedTuple):
    """How a value is read. `read(value, is_text)` returns None for a value that is not allowed; `allowed` says what is."""

    read: Callable[[Any, bool], Any]
    allowed: str


def integer(low: int, high: int) -> Parser:
    """A whole number, or its decimal digits as text. Unlike in Python, a boolean is not a number."""

    def read(value: Any, is_text: bool) -> Any:
        if is_text and re.fullmatch(r"-?[0-9]{1,19}", value.strip()):
            value = int(value.strip())
        return value if type(value) is int and low <= value <= high else None

    return Parser(read, f"a whole number from {low} to {high}")


def _read_boolean(value: Any, is_text: bool) -> Any:
    if is_text:
        return {"true": True, "false": False}.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def choice(*options: str) -> Parser:
    """One of several words."""

    def read(value: Any, _is_text: bool) -> Any:
        # YAML takes a plain `off` for false, and 3.6 for a number.
        word = OFF if value is False else str(value) if isinstance(value, float) else value
        return word if word in options else None

    return Parser(read, " or ".join(options))


def caseless(*options: str) -> Parser:
    """One of several words, in upper or lower case. The value is in lower case."""

    def read(value: Any, _is_text: bool) -> Any:
        return value.lower() if isinstance(value, str) and value.lower() in options else None

    return Parser(read, " or ".join(options))


def _read_names(value: Any, _is_text: bool) -> Any:
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or len(set(map(str, names))) < len(names):
        return None
    return tuple(names) if all(isinstance(name, str) and _NAME.fullmatch(name) for name in names) else None


def _read_protocols(value: Any, is_text: bool) -> Any:
    """Group protocols. As in Kafka, `classic` cannot be removed."""
    names = _read_names(value, is_text)
    return names if names is not None and {Kind.CLASSIC.label} <= set(names) <= set(LABELS) else None


def _read_tags(value: Any, is_text: bool) -> Any:
    is_nothing = (isinstance(value, str) and not value.strip()) or value in ([], ())
    return () if is_nothing else _read_names(value, is_text)


def _read_groups(value: Any, _is_text: bool) -> Any:
    names = [name.strip() for name in value.split(",") if value.strip()] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or len(names) > GROUPS_NAMED_MAX:
        return None
    valid = all(isinstance(name, str) and name and name.isprintable() for name in names)
    return tuple(names) if valid and len(set(names)) == len(names) else None


def _read_assignors(value: Any, is_text: bool) -> Any:
    names = _read_names(value, is_text)
    return names if names is not None and set(names) <= {STICKY} else None


def _read_text(value: Any, _is_text: bool) -> Any:
    return value if isinstance(value, str) and value and value.isprintable() else None


def listed(*options: str, or_none: bool = False) -> Parser:
    """Different words out of several, separated by commas; `or_none`: possibly none of them."""

    def read(value: Any, is_text: bool) -> Any:
        names = _read_tags(value, is_text) if or_none else _read_names(value, is_text)
        return names if names is not None and set(names) <= set(options) else None

    return Parser(read, f"{' or '.join(options)}, separated by commas{', or nothing' if or_none else ''}")


def _read_maybe_text(value: Any, _is_text: bool) -> Any:
    return value if isinstance(value, str) and "\0" not in value else None


class Secret(str):
    """A text that is not shown: not in logs, errors, dumps or responses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "[hidden]"


def _read_secret(value: Any, _is_text: bool) -> Any:
    return Secret(value) if isinstance(value, str) and "\0" not in value else None


BOOLEAN = Parser(_read_boolean, "true or false")
NAMES = Parser(_read_names, "different names, separated by commas")
PROTOCOLS = Parser(_read_protocols, "classic, alone or with consumer, share and streams, separated by commas")
ASSIGNORS = Parser(_read_assignors, STICKY)
TAGS = Parser(_read_tags, "different names, separated by commas, or nothing")
GROUPS = Parser(
    _read_groups, f"at most {GROUPS_NAMED_MAX} different group ids, separated by commas or as a list, or nothing"
)
TEXT = Parser(_read_text, "text that is not empty")
MAYBE_TEXT = Parser(_read_maybe_text, "text, or nothing")
SECRET = Parser(_read_secret, "text, which is never shown")
INT = integer(0, INT_MAX)
POSITIVE = integer(1, INT_MAX)
LONG = integer(0, LONG_MAX)
POSITIVE_LONG = integer(1, LONG_MAX)
