"""Decodes records other than commits one at a time, by the definitions in protocol_schemas.

Completeness matters here, not speed: a type without columns of its own is complete in `value_json`, and an unknown type
appears with its bytes. Frequent types have fast paths (commits.py, decisions.py, assignments.py), which leave here whatever
they do not handle.

A row is a dict of columns; a missing column is null.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from typing import Any

from coordinator.protocol import messages as kafka
from coordinator.protocol.codec import Codec, DecodeError
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import Message
from coordinator.protocol.schema import Field, Structure
from coordinator.protocol.subscription import parse_assignment
from pyspark_coordinator_log.commits import KEY_TYPES, topic_id_text

EVENT_TYPES = range(1000, 2000)
"""Record types of the event log. Kafka's own are small numbers; those of the server in the state log begin at 2000."""

Row = dict[str, Any]

_VERSION_BYTES = 2
_DECIDED = "CommitDecided"
"""Has no JSON: its columns are complete, and JSON would be the largest column."""
_ZERO_ID = b"\0" * 16
_GROUP_KINDS = ("classic", "consumer", "streams", "share")
"""As in coordinator.groups.kinds, which this package must not import; Kafka's share groups are only read."""
_MEMBER_STATES = {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS"}
_STREAMS_MEMBER_STATES = {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS"}
_DELIVERY_STATES = {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 3: "ARCHIVING", 4: "ARCHIVED"}
_ACKNOWLEDGE_TYPES = dict(enumerate(("gap", "accept", "release", "reject")))
_SHARE_STATE_KEYS = {0: "ShareSnapshotKey", 1: "ShareUpdateKey"}
_VERDICTS = (None, True, False)


@cache
def key_names() -> dict[int, str]:
    """Record type -> name of the key message, for group logs and event logs."""
    codec = Codec.of()
    found = {}
    for name in codec.schemas.names:
        if name.endswith("Key") and not name.startswith("Transaction"):
            api_key = codec.schemas.outline(name).api_key
            assert api_key is not None
            found[api_key] = name
    return found


def row(key: bytes | None, value: bytes | None, *, with_json: bool = True) -> Row:
    """Decodes a record. Never raises for its content: an undecodable record has a `problem`.

    Converting to JSON takes as long as everything else; `with_json` says whether it is needed.
    """
    if key is None or len(key) < 2:
        return {"problem": "a key without a type", "value_json": _raw(key, value), "tombstone": value is None}
    number = int.from_bytes(key[:2], signed=True)
    return _row(number, None if number in KEY_TYPES else key_names().get(number), key, value, with_json=with_json)


def share_state_row(key: bytes | None, value: bytes | None, *, with_json: bool = True) -> Row:
    """As `row`, for a record of `__share_group_state`, whose types have the numbers of commits."""
    if key is None or len(key) < 2:
        return row(key, value)
    number = int.from_bytes(key[:2], signed=True)
    return _row(number, _SHARE_STATE_KEYS.get(number), key, value, with_json=with_json)


def _row(number: int, name: str | None, key: bytes, value: bytes | None, *, with_json: bool) -> Row:
    """`name`: of the key's message; None: the type is unknown."""
    if name is None:
        return {
            "type": f"Unknown({number})",
            "problem": "unknown record type",
            "value_json": _raw(key, value),
            "tombstone": value is None,
        }
    kind = name.removesuffix("Key")
    out: Row = {"type": kind, "tombstone": value is None, "group_kind": _kind_of(kind)}
    try:
        key_message = _whole(name, 0, key)
        out |= _key_columns(key_message)
        if value is None:
            if with_json:
                out["value_json"] = json.dumps({"key": json_values(key_message, name, 0), "value": None})
            return out
        version = int.from_bytes(value[:2], signed=True) if len(value) >= _VERSION_BYTES else None
        value_name = f"{kind}Value"
        if version is None or version not in Codec.of().versions(value_name):
            said = "a value without a version" if version is None else f"version {version} is not known"
            out |= {"problem": said, "value_json": _raw(key, value)}
            return out
        message: Any = _whole(value_name, version, value)
        columns = _COLUMNS.get(kind)
        if columns is not None:
            out |= columns(message)
        if number in EVENT_TYPES:
            out |= _event_columns(message)
        if kind == _DECIDED or not with_json:
            return out
        shown = {"version": version, **json_values(message, value_name, version)}
        out["value_json"] = json.dumps({"key": json_values(key_message, name, 0), "value": shown})
    except DecodeError as error:
        out |= {"problem": str(error), "value_json": _raw(key, value)}
    return out


def _whole(name: str, version: int, data: bytes) -> Message:
    message, end = _decoder(name, version)(data, 2)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes after {name}")
    return message


@cache
def _decoder(name: str, version: int) -> Callable[[bytes, int], tuple[Message, int]]:
    return Codec.of().decoder(name, version)


def _raw(key: bytes | None, value: bytes | None) -> str:
    return json.dumps({"key": _base64(key), "value": _base64(value)})


def _base64(content: bytes | None) -> Any:
    return None if content is None else {"base64": b64encode(content).decode()}


@cache
def _kind_of(name: str) -> str | None:
    if name == "GroupMetadata":
        return "classic"
    return next((kind for kind in _GROUP_KINDS if name.lower().startswith(kind)), None)


def _key_columns(message: Any) -> Row:
    group = getattr(message, "group_id", None)
    columns = {
        "group": getattr(message, "group", None) if group is None else group,
        "member_id": getattr(message, "member_id", None),
    }
    if isinstance(message, kafka.ShareSnapshotKey | kafka.ShareUpdateKey):
        columns |= {"topic_id": _id_text(message.topic_id), "partition": message.partition}
    return columns


# --- the columns of each type -----------------------------------------------------------------------------------------


def _group_metadata(value: kafka.GroupMetadataValue) -> Row:
    return {
        "epoch": value.generation,
        "generation": value.generation,
        "leader": value.leader,
        "protocol": value.protocol,
        "protocol_type": value.protocol_type,
        "members": [_classic_member(member, value.protocol_type) for member in value.members],
    }


def _forming_generation(value: kafka.ClassicGroupGenerationValue) -> Row:
    """As `_group_metadata`; the members have no assignments yet."""
    return {
        "epoch": value.generation,
        "generation": value.generation,
        "leader": value.leader,
        "protocol": value.protocol,
        "protocol_type": value.protocol_type,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "assignment": None,
                "assignment_bytes": None,
            }
            for member in value.members
        ],
    }


def _classic_member(member: kafka.GroupMetadataValue.MemberMetadata, protocol_type: str) -> Row:
    assignment, content = None, member.assignment
    if protocol_type == "consumer":
        try:
            assignment = [
                {"topic": topic, "topic_id": None, "partition": partition, "epoch": None}
                for topic, partitions in parse_assignment(content).partitions.items()
                for partition in partitions
            ]
        except DecodeError:
            assignment = None
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "assignment": assignment,
        "assignment_bytes": content if assignment is None else None,
    }


def _member(value: kafka.ConsumerGroupMemberMetadataValue | kafka.StreamsGroupMemberMetadataValue) -> Row:
    return {
        "instance_id": value.instance_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
    }


def _consumer_member(value: kafka.ConsumerGroupMemberMetadataValue) -> Row:
    return {
        **_member(value),
        "subscribed_topics": value.subscribed_topic_names,
        "subscribed_regex": value.subscribed_topic_regex or None,
    }


def _group_epoch(
    value: kafka.ConsumerGroupMetadataValue | kafka.StreamsGroupMetadataValue | kafka.ShareGroupMetadataValue,
) -> Row:
    return {"epoch": value.epoch}


def _target_epoch(
    value: kafka.ConsumerGroupTargetAssignmentMetadataValue
    | kafka.StreamsGroupTargetAssignmentMetadataValue
    | kafka.ShareGroupTargetAssignmentMetadataValue,
) -> Row:
    return {"target_epoch": value.assignment_epoch}


def _target(
    value: kafka.ConsumerGroupTargetAssignmentMemberValue | kafka.ShareGroupTargetAssignmentMemberValue,
) -> Row:
    return {"assignment": _by_id((each.topic_id, each.partitions, None) for each in value.topic_partitions)}


def _current(value: kafka.ConsumerGroupCurrentMemberAssignmentValue) -> Row:
    return {
        **_epochs(value, member_state(value.state)),
        "revocation_epoch": _non_negative(value.revocation_epoch),
        "assignment": _with_epochs(value.assigned_partitions),
        "pending_revocation": _with_epochs(value.partitions_pending_revocation),
    }


def _streams_current(value: kafka.StreamsGroupCurrentMemberAssignmentValue) -> Row:
    return {
        **_epochs(value, _STREAMS_MEMBER_STATES.get(value.state, f"UNKNOWN({value.state})")),
        "revocation_epoch": _non_negative(value.active_task_revocation_epoch),
    }


def _share_member(value: kafka.ShareGroupMemberMetadataValue) -> Row:
    return {
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topics": value.subscribed_topic_names,
    }


def _share_current(value: kafka.ShareGroupCurrentMemberAssignmentValue) -> Row:
    return {
        **_epochs(value, "STABLE"),  # the only state of these members
        "assignment": _by_id((each.topic_id, each.partitions, None) for each in value.assigned_partitions),
    }


def _share_snapshot(value: kafka.ShareSnapshotValue) -> Row:
    return {
        **_share_update(value),
        "state_epoch": value.state_epoch,
        "create_ms": value.create_timestamp,
        "write_ms": value.write_timestamp,
    }


def _share_update(value: kafka.ShareSnapshotValue | kafka.ShareUpdateValue) -> Row:
    return {
        "snapshot_epoch": value.snapshot_epoch,
        "partition_leader_epoch": _non_negative(value.leader_epoch),
        "start_offset": _non_negative(value.start_offset),
        "delivery_complete_count": _non_negative(value.delivery_complete_count),
        "batches": [
            {
                "first_offset": each.first_offset,
                "last_offset": each.last_offset,
                "state": _DELIVERY_STATES.get(each.delivery_state, f"UNKNOWN({each.delivery_state})"),
                "delivery_count": each.delivery_count,
            }
            for each in value.state_batches
        ],
    }


def _epochs(
    value: kafka.ConsumerGroupCurrentMemberAssignmentValue
    | kafka.StreamsGroupCurrentMemberAssignmentValue
    | kafka.ShareGroupCurrentMemberAssignmentValue,
    state: str,
) -> Row:
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "state": state,
    }


def _with_epochs(entries: list[kafka.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]) -> list[Row]:
    return _by_id((each.topic_id, each.partitions, each.assignment_epochs) for each in entries)


def _by_id(entries: Iterable[tuple[bytes, list[int], list[int] | None]]) -> list[Row]:
    out = []
    for topic_id, partitions, epochs in entries:
        known = epochs if epochs is not None and len(epochs) == len(partitions) else [None] * len(partitions)
        text = _id_text(topic_id)
        out += [
            {"topic": None, "topic_id": text, "partition": partition, "epoch": epoch}
            for partition, epoch in zip(partitions, known, strict=True)
        ]
    return out


def _event_columns(value: Any) -> Row:
    """The columns that event types share, by the fields that a type has."""
    out: Row = {}
    for field, column, convert in _event_fields(value.NAME):
        out[column] = convert(getattr(value, field))
    topics = getattr(value, "topics", None)
    if topics is not None:
        out["partitions"] = [
            {"topic": each.topic_name or None, "topic_id": _id_text(each.topic_id), **_partition(partition)}
            for each in topics
            for partition in each.partitions
        ]
    if hasattr(value, "ranges"):
        place = {"topic": value.topic_name or None, "topic_id": _id_text(value.topic_id)}
        out["partitions"] = [{**place, **_partition(value.partition)}]
        out["ranges"] = [_delivered(each) for each in value.ranges]
    violations = getattr(value, "violations", None)
    if violations is not None:
        out["partitions"] = [
            {"topic": each.topic_name, "topic_id": None, **_partition(each.partition), "error": violation.rule}
            for violation in violations
            for each in violation.partitions
        ]
    waited = getattr(value, "waited_for", None)
    if waited is not None:
        out["waited_for"] = [{"member_id": each.member_id, "waited_ms": each.waited_ms} for each in waited]
    return out


def _delivered(records: Any) -> Row:
    kind = getattr(records, "acknowledge_type", None)
    return {
        "first_offset": records.first_offset,
        "last_offset": records.last_offset,
        "delivery_count": records.delivery_count,
        "acknowledge_type": None if kind is None else _ACKNOWLEDGE_TYPES.get(kind, f"UNKNOWN({kind})"),
    }


def _partition(partition: Any) -> Row:
    out = dict.fromkeys(_OF_PARTITION)
    if isinstance(partition, int):
        return out | {"partition": partition}
    for name, convert in _OF_PARTITION.items():
        attribute = "error_code" if name == "error" else name
        if hasattr(partition, attribute):
            out[name] = convert(getattr(partition, attribute))
    return out


def error_name(code: int) -> str | None:
    """Kafka's name of an error; None for no error."""
    if code == ErrorCode.NONE:
        return None
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"UNKNOWN({code})"


def verdict(number: int) -> bool | None:
    """0 undecided, 1 accepts, 2 refuses."""
    return _VERDICTS[number] if 0 <= number < len(_VERDICTS) else None


def group_kind(number: int) -> str | None:
    """The kind of a group by its number in the event log."""
    return _GROUP_KINDS[number] if 0 <= number < len(_GROUP_KINDS) else None


def member_state(number: int) -> str:
    """The state of a consumer group member."""
    return _MEMBER_STATES.get(number, f"UNKNOWN({number})")


def _unchanged(value: Any) -> Any:
    return value


def _non_negative(value: int) -> int | None:
    return value if value >= 0 else None


def _non_empty(value: str | None) -> str | None:
    return value or None


def _validation_policy(refused: bool) -> str:
    """What the group did with an invalid assignment."""
    return "refuse" if refused else "report"


@cache
def _event_fields(name: str) -> list[tuple[str, str, Callable[[Any], Any]]]:
    there = {field.attribute for field in Codec.of().definition(name).root.fields}
    return [each for each in _EVENT_FIELDS if each[0] in there]


_OF_PARTITION: dict[str, Callable[[Any], Any]] = {
    "partition": _unchanged,
    "committed_offset": _unchanged,
    "error": error_name,
    "assignment_epoch": _non_negative,
    "previous_offset": _unchanged,
    "owner_id": _unchanged,
}

_EVENT_FIELDS: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("state_offset", "state_offset", _unchanged),
    ("state_end_offset", "state_end_offset", _non_negative),
    ("time_ms", "time_ms", _unchanged),
    ("group_kind", "group_kind", group_kind),
    ("to_kind", "group_kind", group_kind),
    ("member_id", "member_id", _unchanged),
    ("group_instance_id", "instance_id", _unchanged),
    ("client_id", "client_id", _unchanged),
    ("client_host", "client_host", _unchanged),
    ("epoch", "epoch", _unchanged),
    ("generation_id_or_member_epoch", "epoch", _unchanged),
    ("member_epoch", "member_epoch", _non_negative),
    ("revocation_epoch", "revocation_epoch", _non_negative),
    ("error_code", "error", error_name),
    ("policy", "policy", _non_empty),
    ("refused", "policy", _validation_policy),
    ("strict_verdict", "strict_accepts", verdict),
    ("revocation_epoch_verdict", "revocation_epoch_accepts", verdict),
    ("assignment_epoch_verdict", "assignment_epoch_accepts", verdict),
    ("transactional_id", "transactional_id", _unchanged),
    ("producer_id", "commit_producer_id", _non_negative),
    ("producer_epoch", "commit_producer_epoch", _non_negative),
    ("cause", "cause", _unchanged),
    ("reason", "reason", _unchanged),
    ("duration_ms", "duration_ms", _non_negative),
    ("delay_ms", "delay_ms", _unchanged),
    ("members", "member_count", _unchanged),
    ("loaded_ms", "loaded_ms", _non_negative),
    ("number", "event_number", _non_negative),
    ("queue_topic", "queue_topic", _non_empty),
    ("queue_partition", "queue_partition", _non_negative),
    ("queue_offset", "queue_offset", _non_negative),
    ("timeout", "timeout", _unchanged),
    ("timeout_ms", "timeout_ms", _non_negative),
    ("client_port", "client_port", _non_negative),
    ("connection_end", "connection_end", _non_empty),
    ("connection_closed_ms", "connection_closed_ms", _non_negative),
    ("principal", "principal", _non_empty),
    ("api", "api", _unchanged),
    ("run_id", "run_id", _unchanged),
    ("previous_state_offset", "previous_state_offset", _non_negative),
    ("previous_time_ms", "previous_time_ms", _non_negative),
    ("covered_state_offset", "covered_state_offset", _non_negative),
    ("undone_from_offset", "undone_from_offset", _non_negative),
    ("cleanly_closed", "cleanly_closed", _unchanged),
)
"""Attribute of the message, column, conversion."""

_COLUMNS: dict[str, Callable[[Any], Row]] = {
    "GroupMetadata": _group_metadata,
    "ClassicGroupGeneration": _forming_generation,
    "ClassicGroupResync": lambda value: {"epoch": value.generation, "generation": value.generation},
    "ConsumerGroupMemberMetadata": _consumer_member,
    "ConsumerGroupMetadata": _group_epoch,
    "ConsumerGroupTargetAssignmentMetadata": _target_epoch,
    "ConsumerGroupTargetAssignmentMember": _target,
    "ConsumerGroupCurrentMemberAssignment": _current,
    "StreamsGroupMemberMetadata": _member,
    "StreamsGroupMetadata": _group_epoch,
    "StreamsGroupTargetAssignmentMetadata": _target_epoch,
    "StreamsGroupCurrentMemberAssignment": _streams_current,
    "ShareGroupMemberMetadata": _share_member,
    "ShareGroupMetadata": _group_epoch,
    "ShareGroupTargetAssignmentMetadata": _target_epoch,
    "ShareGroupTargetAssignmentMember": _target,
    "ShareGroupCurrentMemberAssignment": _share_current,
    "ShareSnapshot": _share_snapshot,
    "ShareUpdate": _share_update,
}


@lru_cache(4096)
def _id_text(topic_id: bytes) -> str | None:
    return None if topic_id == _ZERO_ID else topic_id_text(topic_id)


# --- a message as JSON ------------------------------------------------------------------------------------------------


def json_values(message: Message, name: str, version: int) -> Row:
    """A message as dicts and lists: bytes in base64, ids as text, only the fields of its version."""
    return _structure(message, Codec.of().definition(name).root, name, version)


def _structure(value: Any, shape: Structure, name: str, version: int) -> Row:
    out = {}
    for field in shape.fields:
        if version in field.versions:
            content = getattr(value, field.attribute)
            if content is not None and field.type.is_array:
                out[field.attribute] = [_one(each, field, name, version) for each in content]
            else:
                out[field.attribute] = _one(content, field, name, version)
    return out


def _one(value: Any, field: Field, name: str, version: int) -> Any:
    if value is None:
        return None
    if field.type.is_struct:
        return _structure(value, Codec.of().definition(name).structures[field.type.name], name, version)
    if field.type.name == "uuid":
        return topic_id_text(value)
    return b64encode(value).decode() if isinstance(value, bytes) else value
