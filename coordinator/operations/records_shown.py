"""`coordinator topics produce` and `consume`: records as lines of text, or as JSON in the same form for both."""

import json
import os
from base64 import b64decode
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from coordinator.operations.client import Client, OperationFailed
from coordinator.operations.consume import Consumed, consume
from coordinator.operations.json_values import bytes_as_json
from coordinator.operations.produce import Producer, Record

_CHUNK_BYTES = 1 << 16


def show_production(
    client: Client, topic: str, input_fd: int, *, partition: int | None, key_separator: str | None, from_json: bool
) -> int:
    """Sends the lines of a file descriptor to a topic, and prints how many. Lines that arrive together are one batch."""
    producer, sent, number = Producer(client, topic), 0, 0
    for lines in _lines(input_fd):
        records = []
        for line in lines:
            number += 1
            try:
                records.append(_parse_json(line) if from_json else _parse_text(line, key_separator))
            except ValueError as error:
                raise OperationFailed(f"line {number}: {error}; {sent} records were sent before") from error
        if partition is not None:
            records = [record._replace(partition=partition) for record in records]
        sent += producer.send(records)
    click.echo(f"{sent} records sent to {topic}", err=True)
    return 0


def show_consumption(
    client: Client,
    topics: tuple[str, ...],
    group_id: str | None,
    *,
    from_beginning: bool,
    until_end: bool,
    count_max: int | None,
    key_separator: str | None,
    as_json: bool,
) -> int:
    """Prints records as they arrive."""
    found = consume(client, topics, group_id, from_beginning=from_beginning, until_end=until_end)
    try:
        for each in islice(found, count_max):
            click.echo(json.dumps(_as_json(each)) if as_json else _as_text(each, key_separator))
    finally:
        found.close()
    return 0


def _lines(input_fd: int) -> Iterator[list[bytes]]:
    """The lines that can be read at once, again and again, until the end of the input."""
    rest = b""
    while chunk := os.read(input_fd, _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def _parse_text(line: bytes, key_separator: str | None) -> Record:
    if key_separator is None:
        return Record(None, line)
    key, separator, value = line.partition(key_separator.encode())
    if not separator:
        raise ValueError(f"there is no {key_separator!r} between a key and a value")
    return Record(key, value)


def _parse_json(line: bytes) -> Record:
    """A record from `{"key": ..., "value": ..., "headers": {name: ...}}`; every field can be missing. Raises ValueError.

    Other fields, such as the offset that `consume --json` prints, have no effect: what is read can be written elsewhere.
    """
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("a record is a JSON object")  # noqa: TRY004 - as every other wrong line
    headers = fields.get("headers") or {}
    if not isinstance(headers, dict):
        raise ValueError("headers: a JSON object of names and values")  # noqa: TRY004 - as above
    return Record(
        _bytes(fields.get("key")),
        _bytes(fields.get("value")),
        tuple((name, _bytes(value)) for name, value in headers.items()),
    )


def _bytes(value: Any) -> bytes | None:
    """The bytes of a JSON value: text as UTF-8, `{"base64": ...}` as what it encodes, anything else as compact JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return b64decode(value["base64"], validate=True)
    return json.dumps(value, separators=(",", ":")).encode()


def _as_json(consumed: Consumed) -> dict[str, Any]:
    record = consumed.record
    return {
        "topic": consumed.topic,
        "partition": consumed.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": bytes_as_json(record.key),
        "value": bytes_as_json(record.value),
        "headers": {name: bytes_as_json(value) for name, value in record.headers},
    }


def _as_text(consumed: Consumed, key_separator: str | None) -> bytes:
    value = consumed.record.value or b""
    return value if key_separator is None else (consumed.record.key or b"") + key_separator.encode() + value
