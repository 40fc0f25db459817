"""What the records of the stream hold: numbers, or the records of a file of the user's.

A program that copies values as they are thereby says of each copy which record it is of, if all values differ. Those of a file
do if they have "{partition}" and "{number}", which the stream replaces.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

_PLACES = (b"{partition}", b"{number}")


class WrongInput(Exception):
    """A file that holds no records. The text names the file and the line."""


class Template(NamedTuple):
    """A record before its numbers are in it."""

    key: bytes | None
    value: bytes

    @property
    def is_distinct(self) -> bool:
        """Whether the value of each record that it makes is another one."""
        return all(each in self.value for each in _PLACES)


NUMBERED = (Template(b"{number}", b"{partition}:{number}"),)


class Content:
    """The content of a topic's records, and which record a value is that of."""

    def __init__(self, templates: Sequence[Template] = NUMBERED) -> None:
        self._templates = templates
        self._records: dict[bytes, tuple[int, int]] = {}
        self.is_distinct = all(each.is_distinct for each in templates)
        """Whether a value says which record it is that of."""

    def make(self, partition: int, number: int) -> tuple[bytes | None, bytes]:
        """The key and the value of a record. Its number is above 0, and unique within the partition."""
        key, value = self._templates[(number - 1) % len(self._templates)]
        for place, found in zip(_PLACES, (b"%d" % partition, b"%d" % number), strict=True):
            key, value = key and key.replace(place, found), value.replace(place, found)
        self._records[value] = partition, number
        return key, value

    def __contains__(self, value: bytes | None) -> bool:
        """Whether it is the value of a record that was made."""
        return value in self._records

    def record_of(self, value: bytes | None) -> tuple[int, int] | None:
        """The partition and the number of the record that has this value; None if none has it, or several may."""
        return self._records.get(value) if value is not None and self.is_distinct else None


def read_input(path: Path) -> list[Template]:
    """The records of a file: `KEY<tab>VALUE` or VALUE in each line or, if its name ends in .json or .jsonl, a JSON object with
    `value` (text, or any JSON) or `value_base64`, and perhaps `key`. Raises WrongInput.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise WrongInput(f"{path}: {error.strerror}") from None
    parse = _json if path.suffix in (".json", ".jsonl") else _text
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(parse(line))
            except (ValueError, TypeError) as error:
                raise WrongInput(f"{path}: line {number}: {error}") from None
    if not found:
        raise WrongInput(f"{path}: it holds no record")
    return found


def _text(line: bytes) -> Template:
    key, tab, value = line.partition(b"\t")
    return Template(key, value) if tab else Template(None, line)


def _json(line: bytes) -> Template:
    record: Any = msgspec.json.decode(line)
    if not isinstance(record, Mapping) or not record.keys() <= {"key", "value", "value_base64"}:
        raise TypeError("a record is an object with value or value_base64, and perhaps key")
    if ("value" in record) == ("value_base64" in record):
        raise ValueError("a record has either value or value_base64")
    key = None if record.get("key") is None else _bytes(record["key"])
    if "value" in record:
        return Template(key, _bytes(record["value"]))
    return Template(key, base64.b64decode(record["value_base64"], validate=True))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
