"""Every number of every request at its extremes: for each API and version a frame per numeric field and value, all else valid.

The definitions say which fields there are. Each value is sent in two requests: one with an element in every array and a value
in every field, and one that has only what leads to the field. A request about a member, a producer or a topic names real ones,
so that the number is what is wrong.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message, message_class
from coordinator.protocol.schema import Definition, Field, Structure
from tests.groups.harness import subscription
from tests.hostile.fuzzer import ANSWER_WITHIN_S, CODEC, SCHEMAS, decoded, request_frame, response, supported
from tests.support.record_batch import Batch

TOPIC = "extremes"
_LIMITS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "float64": (-1.7976931348623157e308, 1.7976931348623157e308),
}
_CLIENT = b"extremes"

_FIXED: dict[str, Any] = {
    "topic": TOPIC, "topic_name": TOPIC, "source_topics": TOPIC, "subscribed_topic_names": TOPIC,
    "protocol_type": "consumer", "protocol_name": "range", "server_assignor": "uniform",
    "subscribed_topic_regex": "extr.*", "metadata": subscription([TOPIC]), "records": Batch(values=[b"v"]).encode(),
    "state_filters": "Stable", "types_filter": "classic", "states_filter": "Ongoing", "transactional_id_pattern": ".*",
    "configuration_keys": "retention.ms", "source_topic_regex": "", "member_epoch": 0, "session_timeout_ms": 6_000,
    "rebalance_timeout_ms": 6_000, "transaction_timeout_ms": 1_000, "timeout_ms": 10, "acks": 1, "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20, "num_partitions": 1, "count": 2, "replication_factor": 1, "replicas": 1,
    "broker_ids": 1, "resource_type": 2, "generation_id": -1, "generation_id_or_member_epoch": -1, "epoch": 1,
    "port": 9092, "transaction_version": 2, "producer_id": -1, "producer_epoch": -1, "resource_pattern_type": 3,
    "pattern_type_filter": 3, "resource_type_filter": 2, "operation": 3, "permission_type": 3, "principal": "User:a",
}  # fmt: skip
"""Attribute -> the value in a valid request; other texts are "a", other numbers the definition's default, or 0."""
_NAMES = {"JoinGroupRequestProtocol": "range"}
"""Structure -> its field `name`, where that is not a topic."""
_OTHER_TOPICS = {"CreateTopics", "DeleteTopics"}
"""APIs whose requests name topics of their own."""
_EMPTY = {
    ("ConsumerGroupHeartbeatRequest", "topic_partitions"), ("StreamsGroupHeartbeatRequest", "active_tasks"),
    ("StreamsGroupHeartbeatRequest", "standby_tasks"), ("StreamsGroupHeartbeatRequest", "warmup_tasks"),
    ("StreamsGroupHeartbeatRequest", "source_topic_regex"), ("StreamsGroupHeartbeatRequest", "copartition_groups"),
    ("CreateTopicsRequest", "assignments"), ("CreatePartitionsRequest", "assignments"),
    ("CreateTopicsRequest", "configs"),
}  # fmt: skip
"""Arrays that a valid request has empty, unless they lead to the field."""
_NEEDS_MEMBER = {"Heartbeat", "SyncGroup", "LeaveGroup"}
_NEEDS_PRODUCER = {"AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit"}

Path = tuple[str, ...]
_FAIL_IN_KAFKA = {"isolation_level", "error_code", "AlterShareGroupOffsets topics.partitions.partition_index"}
"""Kafka has no better answer to an unknown isolation level, nor to a negative partition here. A leader may give its members
this error (SyncGroup).
"""


@dataclass(frozen=True, slots=True)
class Extreme:
    """One number of one version at one extreme."""

    api_key: int
    api: str
    version: int
    path: Path
    """The attributes that lead to the field."""
    value: float
    is_full: bool
    """Whether all other fields and arrays have a value, too."""

    def __str__(self) -> str:
        return f"{self.api} v{self.version} {'.'.join(self.path)}={self.value}{' (full)' if self.is_full else ''}"


def extremes(apis: dict[int, tuple[int, int]]) -> Iterator[Extreme]:
    """`apis`: key -> first and last version."""
    for key, (first, last) in apis.items():
        definition = SCHEMAS[SCHEMAS.request_names[key]]
        for version in (each for each in definition.versions if first <= each <= last):
            for path, kind in _numbers(definition, definition.root, version):
                for value in sorted({*_LIMITS[kind], 0, max(-1, _LIMITS[kind][0])}):
                    for is_full in (False, True):
                        yield Extreme(key, definition.name.removesuffix("Request"), version, path, value, is_full)


def _numbers(definition: Definition, structure: Structure, version: int) -> Iterator[tuple[Path, str]]:
    for each in structure.fields:
        if version in each.versions:
            kind = each.type.name
            if kind in _LIMITS:
                yield (each.attribute,), kind
            elif each.type.is_struct:
                for path, inner in _numbers(definition, definition.structures[kind], version):
                    yield (each.attribute, *path), inner


class Maker:
    """Makes requests that are valid but for one number."""

    def __init__(self, topic_id: bytes) -> None:
        self._topic_id = topic_id

    def body(self, extreme: Extreme, known: dict[str, Any]) -> bytes:
        """`known`: attribute -> the value of a real group, member or producer."""
        name = f"{extreme.api}Request"
        definition = SCHEMAS[name]
        message = self._structure(definition, definition.root, extreme, extreme.path, known)
        return CODEC.encoder(name, extreme.version)(message)

    def _structure(
        self, definition: Definition, structure: Structure, extreme: Extreme, path: Path | None, known: dict[str, Any]
    ) -> Message:
        """`path`: what leads to the number from here; None if nothing does."""
        top = message_class(definition.name)
        made = (top if structure is definition.root else getattr(top, structure.name))()
        for each in structure.fields:
            if extreme.version not in each.versions:
                continue
            if path is not None and path[0] == each.attribute:
                value = (
                    extreme.value
                    if len(path) == 1
                    else self._structure(definition, definition.structures[each.type.name], extreme, path[1:], known)
                )
                setattr(made, each.attribute, [value] if each.type.is_array else value)
            elif (definition.name, each.attribute) in _EMPTY:
                setattr(made, each.attribute, [])
            elif extreme.is_full or not (each.type.is_array or extreme.version in each.tagged):
                setattr(made, each.attribute, self._value(definition, structure, each, extreme, known))
        return made

    def _value(
        self, definition: Definition, structure: Structure, each: Field, extreme: Extreme, known: dict[str, Any]
    ) -> Any:
        if each.type.is_struct:
            inner = self._structure(definition, definition.structures[each.type.name], extreme, None, known)
            return [inner] if each.type.is_array else inner
        value = self._plain(structure, each, known)
        return [value] if each.type.is_array else value

    def _plain(self, structure: Structure, each: Field, known: dict[str, Any]) -> Any:
        attribute, kind = each.attribute, each.type.name
        if attribute in known:
            return known[attribute]
        if attribute in ("name", "topic_names") and kind == "string":
            return _NAMES.get(structure.name) or known.get("topic", TOPIC)
        if attribute in _FIXED and (kind in _LIMITS) == isinstance(_FIXED[attribute], int):
            return _FIXED[attribute]
        match kind:
            case "string":
                return "a"
            case "bytes" | "records":
                return b""
            case "uuid":
                return self._topic_id if attribute == "topic_id" else bytes(16)
            case "bool":
                return False
        return each.default if isinstance(each.default, int) else 0


class Sender:
    """Sends requests one after the other over a connection that it opens again when the server has closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, key: int, api: str, version: int, body: bytes) -> Message | None:
        """The response; None if the connection was closed. Raises TimeoutError."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        try:
            writer.write(request_frame(key, api, version, body, 1, _CLIENT))
            data = await asyncio.wait_for(response(reader), ANSWER_WITHIN_S)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.close()
            return None
        return decoded(data, 1, api, version)

    async def ask(self, api: str, version: int, **values: Any) -> Any:
        """The response to a request that is valid."""
        name = f"{api}Request"
        body = CODEC.encoder(name, version)(message_class(name)(**values))
        answer = await self.call(SCHEMAS.outline(name).api_key, api, version, body)
        assert answer is not None, f"the connection was closed on a valid {api}"
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Outcome:
    """What became of the frames."""

    sent: int = 0
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    """Frames that were answered with UNKNOWN_SERVER_ERROR although Kafka has another answer for them."""


async def send_extremes(host: str, port: int, *, senders: int = 8) -> Outcome:
    """Sends all frames. Raises TimeoutError, with the frame, if one gets neither a response nor a closed connection."""
    apis = await supported(host, port)
    first = Sender(host, port)
    metadata = await first.ask("Metadata", 12, topics=[_metadata_topic()], allow_auto_topic_creation=True)
    first.close()
    maker, outcome, todo = Maker(metadata.topics[0].topic_id), Outcome(), extremes(apis)

    async def work() -> None:
        sender = Sender(host, port)
        for extreme in todo:
            await _send(sender, maker, extreme, outcome)
        sender.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(senders):
            group.create_task(work())
    return outcome


def _metadata_topic() -> Any:
    made = message_class("MetadataRequest").MetadataRequestTopic()  # type: ignore[attr-defined]
    made.name = TOPIC
    return made


async def _send(sender: Sender, maker: Maker, extreme: Extreme, outcome: Outcome) -> None:
    number = outcome.sent
    outcome.sent += 1
    known: dict[str, Any] = {"group_id": f"group-{number}", "transactional_id": f"transaction-{number}"}
    if extreme.api in _OTHER_TOPICS:
        known["topic"] = f"topic-{number}"
    elif extreme.api == "JoinGroup":
        known["member_id"] = ""
    elif extreme.api in _NEEDS_MEMBER:
        known |= await _member(sender, known["group_id"])
    elif extreme.api in _NEEDS_PRODUCER:
        known |= await _producer(sender, known["transactional_id"])
    body = maker.body(extreme, known)
    if extreme.api == "Produce" and extreme.path == ("acks",) and extreme.value == 0:
        return  # no response is due
    try:
        answer = await sender.call(extreme.api_key, extreme.api, extreme.version, body)
    except TimeoutError as error:
        raise TimeoutError(f"neither answered nor closed: {extreme}: {body.hex()}") from error
    if answer is not None:
        outcome.answered += 1
        path = ".".join(extreme.path)
        fails_in_kafka = not _FAIL_IN_KAFKA.isdisjoint({path, f"{extreme.api} {path}"})
        if getattr(answer, "error_code", 0) == ErrorCode.UNKNOWN_SERVER_ERROR and not fails_in_kafka:
            outcome.failed.append(str(extreme))


async def _member(sender: Sender, group_id: str) -> dict[str, Any]:
    protocol = message_class("JoinGroupRequest").JoinGroupRequestProtocol("range", subscription([TOPIC]))  # type: ignore[attr-defined]
    joined = await sender.ask(
        "JoinGroup", 3, group_id=group_id, session_timeout_ms=6_000, rebalance_timeout_ms=6_000, member_id="",
        protocol_type="consumer", protocols=[protocol],
    )  # fmt: skip
    return {"member_id": joined.member_id, "generation_id": joined.generation_id, "group_instance_id": None}


async def _producer(sender: Sender, transactional_id: str) -> dict[str, Any]:
    made = await sender.ask("InitProducerId", 4, transactional_id=transactional_id, transaction_timeout_ms=1_000)
    known = {"producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    old = {f"v3_and_below_{name}": value for name, value in (known | {"transactional_id": transactional_id}).items()}
    return known | old
