"""The columns of every view, said once: as an Arrow schema and, made from it, in Spark's words.

    raw      every record as bytes, control records among them: nothing is interpreted but the record's type
    commits  committed offsets and their tombstones (types 0 and 1 of `__consumer_offsets`)
    state    every other record of the state log: groups, members, epochs, assignments
    events   the event log: what was decided, accepted and refused, and why
    history  state and events in one, with the columns of both: what a stream needs that joins them

What all views share:

- Absent is null, never a number that stands for it: no topic id, an epoch that nobody has, the offset of a tombstone.
  The envelope (`leader_epoch`, `producer_id`, `producer_epoch`) alone keeps Kafka's -1, as it is the batch's own bytes.
- A topic's id is text, Kafka's 22 characters; an error is its name in Kafka's table.
- (`log_id`, `shard`, `offset`) is unique within the state log and within the event log. `log_id` is the same for both.
- Order is `state_offset`, never a timestamp. That of a record of the state log is its own offset (commits are not told it
  twice: each column of so many rows costs one part in twenty of the reading). That of an event is the
  end of the state that was known when it was decided: it comes *before* the record of the state log with the same number.
  So `ORDER BY log_id, shard, state_offset, is_state, offset` is the order in which all of it happened (false is first).
- `problem` is null, or says why the other columns are: a record of unknown type or version, or bytes that are not what
  they claim to be. Such records are kept, so that a count of them is a count of the log.
- `value_json` is the whole record, key and value, as JSON; null for commits and CommitDecided, whose columns say it all.
"""

import pyarrow as pa

RAW, COMMITS, STATE, EVENTS, HISTORY = "raw", "commits", "state", "events", "history"
VIEWS = (RAW, COMMITS, STATE, EVENTS, HISTORY)

_Columns = list[tuple[str, pa.DataType]]

ENVELOPE: _Columns = [
    ("shard", pa.int32()),
    ("log_id", pa.string()),
    ("leader_epoch", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp_ms", pa.int64()),
    ("producer_id", pa.int64()),
    ("producer_epoch", pa.int16()),
    ("is_transactional", pa.bool_()),
]

PARTITION = pa.struct(
    [("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32()), ("epoch", pa.int32())]
)
"""A partition in an assignment. Consumer groups' records name it by id and classic ones by name: the other is null.

`epoch`: since when it is the member's (KIP-1251); null where the record does not say.
"""

CLASSIC_MEMBER = pa.struct(
    [
        ("member_id", pa.string()),
        ("instance_id", pa.string()),
        ("client_id", pa.string()),
        ("client_host", pa.string()),
        ("assignment", pa.list_(PARTITION)),
        ("assignment_bytes", pa.binary()),
    ]
)
"""A member in a classic group's record.

`assignment` is null where the bytes are not ConsumerProtocol's; they are kept in `assignment_bytes`, which is null otherwise.
"""

COMMITTED = pa.struct(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("error", pa.string()),
        ("assignment_epoch", pa.int32()),
    ]
)
"""A partition in an event: of a commit, or of an assignment (then the last three are null).

`error` is null for an accepted one. `assignment_epoch` is null if the partition was not the member's.
"""

WAITED = pa.struct([("member_id", pa.string()), ("waited_ms", pa.int64())])

_RAW: _Columns = [
    ("batch_offset", pa.int64()),
    ("is_control", pa.bool_()),  # never in the other views: a marker is no coordinator's record
    ("key", pa.binary()),
    ("value", pa.binary()),  # null: a tombstone
    ("key_type", pa.int16()),  # null: a control record, or a key that is too short to have one
    ("value_version", pa.int16()),
    ("control_type", pa.int16()),  # 0 abort, 1 commit; null unless is_control
]

_COMMITS: _Columns = [
    ("group", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("topic_id", pa.string()),
    ("committed_offset", pa.int64()),  # null: a tombstone
    ("leader_epoch_committed", pa.int32()),
    ("metadata", pa.string()),
    ("commit_timestamp_ms", pa.int64()),
    ("expire_timestamp_ms", pa.int64()),  # only values of version 1 have one
    ("value_version", pa.int16()),
    ("problem", pa.string()),
]

_SHARED: _Columns = [
    ("type", pa.string()),  # the record's name without Key or Value; "Unknown(N)" for a type without a definition
    ("state_offset", pa.int64()),
    ("group", pa.string()),
    ("group_kind", pa.string()),  # classic, consumer, streams, share
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("client_host", pa.string()),
    ("epoch", pa.int32()),  # state: the group's epoch or generation; events: see the schemas of the event log
    ("member_epoch", pa.int32()),
    ("revocation_epoch", pa.int32()),
    ("problem", pa.string()),
    ("value_json", pa.string()),
]

_STATE_ONLY: _Columns = [
    ("tombstone", pa.bool_()),
    ("previous_member_epoch", pa.int32()),
    ("target_epoch", pa.int32()),
    ("state", pa.string()),  # the member's: STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS (streams: _TASKS)
    ("generation", pa.int32()),
    ("leader", pa.string()),
    ("protocol", pa.string()),
    ("protocol_type", pa.string()),
    ("rebalance_timeout_ms", pa.int32()),
    ("subscribed_topics", pa.list_(pa.string())),
    ("subscribed_regex", pa.string()),
    ("assignment", pa.list_(PARTITION)),  # a target or a current one, as the type says
    ("pending_revocation", pa.list_(PARTITION)),
    ("members", pa.list_(CLASSIC_MEMBER)),
]

_EVENTS_ONLY: _Columns = [
    ("time_ms", pa.int64()),
    ("state_end_offset", pa.int64()),  # on the last event of a batch
    ("error", pa.string()),  # null: accepted
    ("policy", pa.string()),
    ("strict_accepts", pa.bool_()),  # the verdict of each fencing policy; null: it cannot say
    ("revocation_epoch_accepts", pa.bool_()),
    ("assignment_epoch_accepts", pa.bool_()),
    ("transactional_id", pa.string()),
    ("commit_producer_id", pa.int64()),
    ("commit_producer_epoch", pa.int16()),
    ("cause", pa.string()),
    ("reason", pa.string()),
    ("duration_ms", pa.int64()),
    ("member_count", pa.int32()),
    ("waited_for", pa.list_(WAITED)),
    ("partitions", pa.list_(COMMITTED)),
    ("timeout", pa.string()),
    ("api", pa.string()),
    ("run_id", pa.string()),
    ("previous_state_offset", pa.int64()),
    ("covered_state_offset", pa.int64()),
    ("undone_from_offset", pa.int64()),
    ("cleanly_closed", pa.bool_()),
]

SCHEMAS: dict[str, pa.Schema] = {
    RAW: pa.schema(ENVELOPE + _RAW),
    COMMITS: pa.schema(ENVELOPE + _COMMITS),
    STATE: pa.schema(ENVELOPE + _SHARED + _STATE_ONLY),
    EVENTS: pa.schema(ENVELOPE + _SHARED + _EVENTS_ONLY),
    HISTORY: pa.schema([*ENVELOPE, ("is_state", pa.bool_()), *_SHARED, *_STATE_ONLY, *_EVENTS_ONLY]),
}

FROM_KAFKA_UNKNOWN = ("batch_offset", "leader_epoch", "producer_id", "producer_epoch", "is_transactional", "is_control")
"""Columns that are null in rows that came through Spark's Kafka source: a consumer is not shown them."""

_WORDS = {
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.string(): "STRING",
    pa.binary(): "BINARY",
}


def ddl(view: str) -> str:
    """The schema of a view in Spark's data definition language."""
    return ", ".join(f"`{field.name}` {_word(field.type)}" for field in SCHEMAS[view])


def _word(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"ARRAY<{_word(kind.value_type)}>"
    if pa.types.is_struct(kind):
        inner = ", ".join(f"`{field.name}`: {_word(field.type)}" for field in kind)
        return f"STRUCT<{inner}>"
    return _WORDS[kind]
