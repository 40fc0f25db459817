"""A socket that speaks Kafka's protocol one message at a time, for tests that specify every byte.

Real clients hide a coordinator's responses: they retry, rejoin and swallow errors. Tests about responses therefore use
plain blocking sockets. Messages are dictionaries here, keyed by Kafka's field names in snake_case, because a test shows
*all* fields of one version and nothing else; the project's own codec encodes and decodes the bytes.
"""

import contextlib
import json
import re
import socket
import struct
from functools import cache
from pathlib import Path
from typing import Any, Self

from coordinator.client.conversation import Splitter
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec

SCHEMAS = Path(__file__).resolve().parents[2] / "protocol_schemas"
ANSWER_WITHIN_S = 30.0

Values = dict[str, Any]


class ConnectionClosed(Exception):
    """The server closed the connection."""


def snake(name: str) -> str:
    """GroupId -> group_id, timeoutMs -> timeout_ms."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@cache
def definition(name: str, dialect: str | None = None) -> dict[str, Any]:
    """The message definition from its JSON, a dialect's own where it has one."""
    own = SCHEMAS / "dialects" / str(dialect) / f"{name}.json"
    return json.loads((own if own.exists() else SCHEMAS / f"{name}.json").read_text())


@cache
def api_key(api: str) -> int:
    return definition(api + "Request")["apiKey"]


def covers(versions: str | None, version: int) -> bool:
    """Whether a version is in a range in Kafka's notation: "3", "3+", "3-5", "none"."""
    if not versions or versions == "none":
        return False
    low, dash, high = versions.partition("-")
    if low.endswith("+"):
        return version >= int(low[:-1])
    return int(low) <= version <= int(high if dash else low)


def is_flexible(name: str, version: int) -> bool:
    return covers(definition(name).get("flexibleVersions"), version)


def fields_of(kind: str, field: dict[str, Any], common: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The fields of a struct type, None for a plain type."""
    kind = kind.removeprefix("[]")
    return field.get("fields") or common.get(kind)


def encode(name: str, version: int, values: Values, dialect: str | None = None) -> bytes:
    """A message from its dictionary; missing fields have the definition's defaults."""
    schema = definition(name, dialect)
    common = {struct_["name"]: struct_["fields"] for struct_ in schema.get("commonStructs", [])}
    top = getattr(messages, name)

    def build(owner: Any, fields: list[dict[str, Any]], given: Values) -> Any:
        by_name = {snake(field["name"]): field for field in fields}
        unknown = given.keys() - by_name.keys()
        assert not unknown, f"{name} has no field {sorted(unknown)}; it has {sorted(by_name)}"
        out = {}
        for key, value in given.items():
            field = by_name[key]
            inner = fields_of(field["type"], field, common)
            if inner is None or value is None:
                out[key] = value
            else:
                nested = getattr(top, field["type"].removeprefix("[]"))
                whole = isinstance(value, dict)
                out[key] = build(nested, inner, value) if whole else [build(nested, inner, item) for item in value]
        return owner(**out)

    return Codec.of(dialect).encoder(name, version)(build(top, schema["fields"], values))


def decode(name: str, version: int, data: bytes, dialect: str | None = None) -> Values:
    """All fields of this version in the definition's order; tagged ones only if they differ from the default."""
    message, end = Codec.of(dialect).decoder(name, version)(data, 0)
    assert end == len(data), f"{len(data) - end} bytes left over behind {name} v{version}"
    schema = definition(name, dialect)
    common = {struct_["name"]: struct_["fields"] for struct_ in schema.get("commonStructs", [])}

    def show(value: Any, fields: list[dict[str, Any]]) -> Values:
        out: Values = {}
        for field in fields:
            if not covers(field["versions"], version):
                continue
            item = getattr(value, snake(field["name"]))
            if covers(field.get("taggedVersions"), version) and item == getattr(type(value)(), snake(field["name"])):
                continue
            inner = fields_of(field["type"], field, common)
            if inner is not None and item is not None:
                item = [show(one, inner) for one in item] if isinstance(item, list) else show(item, inner)
            out[snake(field["name"])] = item
        return out

    return show(message, schema["fields"])


def frame(api: str, version: int, body: bytes, correlation_id: int, client_id: str | None) -> bytes:
    """One request as on the wire, length first."""
    header = struct.pack(">hhi", api_key(api), version, correlation_id)
    name = None if client_id is None else client_id.encode()
    header += struct.pack(">h", -1) if name is None else struct.pack(">h", len(name)) + name
    if is_flexible(api + "Request", version):
        header += b"\x00"
    return struct.pack(">i", len(header) + len(body)) + header + body


class Connection:
    """One connection. `send` does not wait; `receive` returns the response to the oldest unanswered request."""

    def __init__(self, bootstrap: str, client_id: str | None = "test", dialect: str | None = None):
        host, _, port = bootstrap.rpartition(":")
        self.client_id = client_id
        self.dialect = dialect
        self.unanswered: list[tuple[str, int, int]] = []
        self.socket = socket.create_connection((host, int(port)), timeout=ANSWER_WITHIN_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent = 0
        self._splitter = Splitter(bytes_min=0)
        self._responses: list[bytes] = []

    def send(self, api: str, version: int, values: Values, surplus: bytes = b"") -> None:
        answered = values.get("acks") != 0  # only Produce may request no response
        self.send_body(api, version, encode(api + "Request", version, values, self.dialect) + surplus, answered)

    def send_body(self, api: str, version: int, body: bytes, answered: bool = True) -> None:
        """A request whose body the test encoded itself, possibly malformed."""
        self._sent += 1
        if answered:
            self.unanswered.append((api, version, self._sent))
        self.send_bytes(frame(api, version, body, self._sent, self.client_id))

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise ConnectionClosed from error

    def receive_bytes(self, within_s: float = ANSWER_WITHIN_S) -> bytes:
        """The next response without its length. Raises TimeoutError while there is none; a later call continues."""
        self.socket.settimeout(within_s)
        while not self._responses:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise ConnectionClosed
            self._responses += map(b"".join, self._splitter.split(piece))
        return self._responses.pop(0)[4:]

    def receive(self, within_s: float = ANSWER_WITHIN_S) -> Values:
        data = self.receive_bytes(within_s)
        api, version, correlation_id = self.unanswered.pop(0)
        assert struct.unpack_from(">i", data) == (correlation_id,), "an answer out of order"
        body = data[4:]
        if api != "ApiVersions" and is_flexible(api + "Response", version):
            assert body[0] == 0, "tagged fields in a response header"
            body = body[1:]
        return decode(api + "Response", version, body, self.dialect)

    def call(self, api: str, version: int, within_s: float = ANSWER_WITHIN_S, **values: Any) -> Values:
        self.send(api, version, values)
        return self.receive(within_s)

    def close(self) -> None:
        """Ends the connection, also for a thread that waits on it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def commit(link: Connection, group: str, offsets: dict[int, int], **who: Any) -> None:
    """Commits offsets of the topic `t` by partition, each with metadata; all must be accepted."""
    partitions = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": f"note {offset}"}
        for partition, offset in offsets.items()
    ]
    who = {"generation_id_or_member_epoch": -1, "member_id": ""} | who
    answer = link.call("OffsetCommit", 9, group_id=group, **who, topics=[{"name": "t", "partitions": partitions}])
    assert all(one["error_code"] == 0 for one in answer["topics"][0]["partitions"]), answer
