"""Messages and bytes as JSON values and tables, for people and scripts.

A message is shown with the fields that exist in its version, in the order of its definition. Bytes are base64, and topic ids
are Kafka's 22 characters; Kafka's tools print and accept both.
"""

import json
import re
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import click

from coordinator.protocol.messages import Message
from coordinator.protocol.schema import Definition, Field, Structure
from coordinator.world.log_lines import printable

TOPIC_ID_BYTES = 16
_MAX_SHOWN = 2000
_COLOURS = {
    "Stable": "green",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "yellow",
    "Dead": "red",
    "not deleted:": "red",
}
_NEWS = re.compile(rf"(?<![^ ])(?:{'|'.join(_COLOURS)})(?![^ ])")
"""The states of groups, and outcomes, as words of their own."""


def message_as_json(message: Message, definition: Definition, version: int) -> dict[str, Any]:
    """The message as nested dicts and lists. Field names are Kafka's in snake_case."""

    def structure(value: Any, shape: Structure) -> dict[str, Any]:
        return {
            field.attribute: field_value(getattr(value, field.attribute), field)
            for field in shape.fields
            if version in field.versions
        }

    def field_value(value: Any, field: Field) -> Any:
        if value is None:
            return None
        if field.type.is_array:
            return [one(item, field) for item in value]
        return one(value, field)

    def one(value: Any, field: Field) -> Any:
        if field.type.is_struct:
            return structure(value, definition.structures[field.type.name])
        if field.type.name == "uuid":
            return topic_id_text(value)
        return b64encode(value).decode() if isinstance(value, bytes) else value

    return structure(message, definition.root)


def topic_id_text(topic_id: bytes) -> str:
    """A topic id as Kafka's tools print it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def parse_topic_id(text: str) -> bytes | None:
    """The topic id of `topic_id_text`; None if the text is none."""
    try:
        topic_id = urlsafe_b64decode(text + "==")
    except ValueError:
        return None
    return topic_id if len(topic_id) == TOPIC_ID_BYTES else None


def bytes_as_json(content: bytes | None) -> Any:
    """Text if the bytes are printable text, else `{"base64": ...}`. None stays None."""
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if text.isprintable() else {"base64": b64encode(content).decode()}


def print_as(as_json: bool, value: Any, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Prints a value as JSON, or the rows of a table that say it."""
    if as_json:
        print_json(value)
    else:
        print_table(header, rows)


def print_deletion(key: str, name: str, outcome: Mapping[str, str | None], *, as_json: bool) -> int:
    """Prints what was deleted and why the rest was not. Returns 1 if there is a rest."""
    rows = [(each, "deleted" if error is None else f"not deleted: {error}") for each, error in outcome.items()]
    value = {key: [{name: each, "error": error} for each, error in outcome.items()]}
    print_as(as_json, value, (key.removesuffix("s").upper(), "OUTCOME"), rows)
    return 1 if any(outcome.values()) else 0


def print_json(value: Any) -> None:
    """Prints a value as indented JSON."""
    click.echo(json.dumps(value, indent=2))


def print_table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Prints a table. On a terminal the header is bold, and words that are good or bad news have a colour."""
    first, *lines = table(header, rows).split("\n")
    click.secho(first, bold=True)
    for line in lines:
        click.echo(_NEWS.sub(lambda word: click.style(word[0], fg=_COLOURS[word[0]]), line))


def table(header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table with aligned columns, in which None is a dash. A value that contains line breaks stays on one line."""
    cells = [tuple("-" if value is None else _shown(str(value)) for value in row) for row in rows]
    widths = [max(len(row[i]) for row in [header, *cells]) for i in range(len(header))]
    right = [{type(row[i]) for row in rows} - {type(None)} == {int} for i in range(len(header))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in [header, *cells]
    ]
    return "\n".join(lines)


def _shown(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."
