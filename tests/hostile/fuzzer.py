"""Makes hostile requests for every API and version, sends them, and checks that each is answered or its connection closes.

A request is a random message: numbers at their extremes, long strings and strings that are not UTF-8, and, so that it gets
past the first check, names, ids and epochs that earlier responses contained. Some frames are damaged afterwards. Everything
follows from a seed, except the order in which connections take turns.
"""

import asyncio
import os
import re
import struct
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from coordinator.protocol.codec import Codec, DecodeError, EncodeError
from coordinator.protocol.messages import Message, ProduceRequest, message_class
from coordinator.protocol.schema import Definition, Field, SchemaFolder, Structure
from tests.support.wire import is_flexible

CODEC = Codec.of()
SCHEMAS = SchemaFolder()
API_VERSIONS = 18
ANSWER_WITHIN_S = 60.0
"""A parked request may take the longest wait below and then the answer of a busy machine."""
WAITS_MS = (0, 1, 10, 10, 50, 200)
WAITS = frozenset({"session_timeout_ms", "rebalance_timeout_ms", "max_wait_ms", "timeout_ms"})
"""Fields by which a client asks to wait. They stay short, or the answer might rightly come after years."""
_TEXTS = (
    "",
    "a",
    "fuzz-0",
    "fuzz-1",
    "consumer",
    "range",
    "cooperative-sticky",
    "groß €uro 𝄞",
    "new\nline",
    "\x1b[31m",
    "a/../b",
)
_GARBLED = "\x7fbad\x7f"
_NOT_UTF8 = (b"\xff\xff\xff\xff\xff", b"\xed\xa0\x80ab", b"\xf0\x9f\x98ab", b"\xc0\xaf\xc0\xaf/")
"""What the placeholder becomes in the encoded frame; equally long."""
SPARED = "honest"
"""Names that begin so are those of the honest client. Who joins its group may call it to rebalance."""
_KEPT = 64
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


class Memory:
    """The values that responses contained lately, by field name."""

    def __init__(self) -> None:
        self._values: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def learn(self, value: Any, name: str = "") -> None:
        if isinstance(value, Message):
            for attribute in value.__slots__:
                self.learn(getattr(value, attribute), attribute)
        elif isinstance(value, list):
            for element in value[:4]:
                self.learn(element, name)
        elif value and name != "error_code" and not (isinstance(value, str) and value.startswith(SPARED)):
            self._values[name].append(value)

    def recall(self, name: str, random: Random) -> Any:
        """A value of this field, or None if there is none."""
        values = self._values.get(name)
        return random.choice(values) if values else None


class RequestMaker:
    """Random requests. What responses contain must be passed to `memory.learn`."""

    def __init__(self, seed: int, apis: dict[int, tuple[int, int]]) -> None:
        """`apis`: key -> first and last version, as in ApiVersions."""
        self.random = Random(seed)
        self.memory = Memory()
        self._names = {key: name.removesuffix("Request") for key, name in SCHEMAS.request_names.items() if key in apis}
        self._versions = apis

    @property
    def every_version(self) -> list[tuple[int, int]]:
        """Key and version of every request that the server advertises."""
        return [(key, version) for key in self._names for version in self._versions_of(key)]

    def _versions_of(self, key: int) -> list[int]:
        first, last = self._versions[key]
        return [each for each in SCHEMAS[f"{self._names[key]}Request"].versions if first <= each <= last]

    def next_request(self) -> tuple[int, str, int, bytes, bool]:
        """A request of any API and version; a few are damaged."""
        key = self.random.choice(list(self._names))
        return self.request(key, self.random.choice(self._versions_of(key)), is_damaged=self.random.random() < 0.03)

    def request(self, key: int, version: int, *, is_damaged: bool) -> tuple[int, str, int, bytes, bool]:
        """API key, name, version, body, and whether a response is due."""
        random, name = self.random, self._names[key]
        definition = SCHEMAS[f"{name}Request"]
        while True:
            message = self._structure(definition, definition.root, version)
            try:
                body = CODEC.encoder(f"{name}Request", version)(message)
            except EncodeError:  # a field of another version was set
                continue
            break
        body = body.replace(_GARBLED.encode(), random.choice(_NOT_UTF8))
        if is_damaged:
            body = self._damaged(body, self._intact_bytes(message, version))
        return key, name, version, body, getattr(message, "acks", 1) != 0

    @staticmethod
    def _intact_bytes(message: Message, version: int) -> int:
        """How much of a request is not damaged: acks of a Produce says whether a response is due."""
        if not isinstance(message, ProduceRequest):
            return 0
        head = ProduceRequest(message.transactional_id, message.acks, message.timeout_ms, [])
        return len(CODEC.encoder("ProduceRequest", version)(head))

    def _damaged(self, body: bytes, intact: int) -> bytes:
        random, changed = self.random, bytearray(body)
        position = random.randrange(min(intact, len(changed)), len(changed) + 1)
        match random.randrange(4):
            case 0:
                del changed[position:]
            case 1:
                changed[position:position] = random.choice(
                    (b"\xff", b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff", b"\x00")
                )
            case 2:
                del changed[position : position + random.randrange(1, 9)]
            case _:
                changed[position : position + 1] = random.randbytes(1)
        return bytes(changed)

    def _structure(self, definition: Definition, structure: Structure, version: int) -> Message:
        top = message_class(definition.name)
        made = (top if structure is definition.root else getattr(top, structure.name))()
        for each in structure.fields:
            is_left_out = version in each.tagged and self.random.random() < 0.6
            if version in each.versions and not is_left_out:
                setattr(made, each.attribute, self._value(definition, each, version))
        return made

    def _value(self, definition: Definition, each: Field, version: int) -> Any:
        random = self.random
        if version in each.nullable and random.random() < 0.2:
            return None
        if each.type.is_array:
            return [self._element(definition, each, version) for _ in range(random.choice((0, 1, 1, 1, 2, 5)))]
        return self._element(definition, each, version)

    def _element(self, definition: Definition, each: Field, version: int) -> Any:
        random, kind = self.random, each.type.name
        if each.attribute in WAITS:
            return random.choice(WAITS_MS)
        if each.attribute == "acks":
            return random.choice((1, -1, -1, 0, 5))
        known = self.memory.recall(each.attribute, random) if random.random() < 0.5 else None
        match kind:
            case "string":
                return known if isinstance(known, str) else self._text()
            case "bytes" | "records":
                return known if isinstance(known, bytes) else random.randbytes(random.choice((0, 1, 20, 61, 500)))
            case "uuid":
                return known if isinstance(known, bytes) and len(known) == 16 else random.randbytes(16)
            case "bool":
                return random.random() < 0.5
            case "uint16" | "uint32":
                return random.choice((0, 1, (1 << int(kind[4:])) - 1))
            case "float64":
                return struct.unpack(">d", random.randbytes(8))[0]
            case _ if kind in _BITS:
                bound = 1 << (_BITS[kind] - 1)
                if type(known) is int and -bound <= known < bound:
                    return known
                return random.choice((0, 1, 2, -1, -2, bound - 1, -bound, random.randrange(-bound, bound)))
        return self._structure(definition, definition.structures[kind], version)

    def _text(self) -> str:
        random = self.random
        match random.randrange(40):
            case 0:
                return _GARBLED * random.choice((1, 2, 1_000, 2_000, 6_000))
            case 1 | 2:
                return "L" * random.choice((249, 250, 255, 256, 1_000, 10_923, 32_767))
        return random.choice(_TEXTS)

    def client_id(self) -> bytes | None:
        random = self.random
        return random.choice(
            (None, b"", b"fuzz", b"fuzz", b"fuzz", b"x" * 32_760, b"\xff" * 10_900, b"a\nevent=forged", b"\x1b[2J")
        )


@dataclass
class Outcome:
    """What became of the frames."""

    sent: int = 0
    answered: int = 0
    closed: int = 0
    """Frames whose connection was closed before they were answered."""
    answered_versions: set[tuple[str, int]] = field(default_factory=set)
    """Names and versions of the requests that were answered."""
    errors: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    unanswered: list[str] = field(default_factory=list)
    """Frames that got neither a response nor a closed connection in time, in hex."""


Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection on which requests may be sent."""


async def bombard(host: str, port: int, seed: int, frames: int, *, connections: int = 12) -> Outcome:
    """Sends this many frames over several connections at a time, up to 20 in flight on each."""
    outcome = Outcome()
    maker = RequestMaker(seed, await supported(host, port))
    connect = partial(asyncio.open_connection, host, port)

    async def worker() -> None:
        while outcome.sent < frames and not outcome.unanswered:
            requests = [maker.next_request() for _ in range(maker.random.choice((1, 5, 20)))]
            await _batch(connect, maker, requests, outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())
    return outcome


async def send_every_version(
    connect: Connect, maker: RequestMaker, *, intact: int, damaged: int, connections: int = 8
) -> Outcome:
    """Sends so many random and so many damaged requests of every API and version, each on a connection of its own."""
    outcome = Outcome()
    due = [each for each in maker.every_version for _ in range(intact + damaged)]
    rounds = iter([(key, version, number % (intact + damaged) >= intact) for number, (key, version) in enumerate(due)])

    async def worker() -> None:
        for key, version, is_damaged in rounds:
            await _batch(connect, maker, [maker.request(key, version, is_damaged=is_damaged)], outcome)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(worker())
    return outcome


async def supported(host: str, port: int) -> dict[int, tuple[int, int]]:
    """The APIs that the server advertises: key -> first and last version."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request_frame(API_VERSIONS, "ApiVersions", 0, b"", 1, b"fuzz"))
    message, _ = CODEC.decoder("ApiVersionsResponse", 0)(await response(reader), 4)
    await close(writer)
    return {each.api_key: (each.min_version, each.max_version) for each in message.api_keys}


async def _batch(
    connect: Connect, maker: RequestMaker, requests: list[tuple[int, str, int, bytes, bool]], outcome: Outcome
) -> None:
    """One connection: pipelined requests, then their responses until the last or until it closes."""
    try:
        reader, writer = await connect()
    except OSError:  # the connection was refused by a limit
        return
    client_id, waiting, sent = maker.client_id(), deque[tuple[int, str, int, bytes]](), []
    for correlation_id, (key, name, version, body, is_answered) in enumerate(requests):
        sent.append(request_frame(key, name, version, body, correlation_id, client_id))
        if is_answered:
            waiting.append((correlation_id, name, version, sent[-1]))
    outcome.sent += len(sent)
    try:
        writer.write(b"".join(sent))
        while waiting:
            data = await asyncio.wait_for(response(reader), ANSWER_WITHIN_S)
            outcome.answered += 1
            outcome.answered_versions.add(waiting[0][1:3])
            message = decoded(data, *waiting.popleft()[:3])
            outcome.errors[getattr(message, "error_code", 0)] += 1
            maker.memory.learn(message)
    except TimeoutError:
        outcome.unanswered.append(waiting[0][3].hex())
    except (ConnectionError, asyncio.IncompleteReadError):
        outcome.closed += len(waiting)
    finally:
        await close(writer)


async def close(writer: asyncio.StreamWriter) -> None:
    """Closes the connection, and waits until what was written has left: a loop that ends earlier leaves the socket open."""
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


def decoded(data: bytes, correlation_id: int, name: str, version: int) -> Message:
    """The response, which must be well-formed."""
    (answered_id,) = struct.unpack_from(">i", data)
    assert answered_id == correlation_id, (
        f"an answer out of order: {answered_id}, not {correlation_id} ({name} v{version})"
    )
    has_tags = name != "ApiVersions" and is_flexible(f"{name}Response", version)
    try:
        message, end = CODEC.decoder(f"{name}Response", version)(data, 5 if has_tags else 4)
    except DecodeError as error:
        raise AssertionError(f"{name} v{version}: {error}: {data.hex()}") from error
    assert end == len(data), f"{name} v{version}: bytes left over: {data.hex()}"
    return message


async def response(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def request_frame(
    key: int, name: str, version: int, body: bytes, correlation_id: int, client_id: bytes | None
) -> bytes:
    header = struct.pack(">hhi", key, version, correlation_id)
    header += struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    if is_flexible(f"{name}Request", version):
        header += b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


SEED = int(os.environ.get("COORDINATOR_TEST_FUZZ_SEED", "1"))


BUGS = re.compile(r"event=(?:operation_failed|request_failed|change_failed|callback_failed)|Traceback|never retrieved")
