"""The columns of every view, defined once: as an Arrow schema, from which Spark's DDL is made.

    raw      every record as bytes, including control records; only the record type is decoded
    commits  committed offsets and their tombstones (types 0 and 1 of `__consumer_offsets`)
    state    every other record of the state log: groups, members, epochs, assignments
    events   the event log: decisions, accepted and refused, with their reasons
    history  state and events in one view with the columns of both, for streams that join them
    share_state  the records of `__share_group_state`: what became of the records of share partitions

Common to all views:

- A missing value is null, never a sentinel: no topic id, no such epoch, the offset of a tombstone. Only the envelope
  (`leader_epoch`, `producer_id`, `producer_epoch`) keeps Kafka's -1, because it shows the batch as written.
- A topic id is text in Kafka's form of 22 characters; an error is its name in Kafka's table.
- (`log_id`, `shard`, `offset`) is unique within the state log and within the event log. `log_id` is the same for both.
- `state_offset` defines the order, never a timestamp. For a record of the state log it is the record's own offset (the view
  `commits` omits it, because each column costs five percent of the reading time). For an event it is the end of the state
  it was decided on, so the event comes *before* the state record with that number. Hence
  `ORDER BY log_id, shard, state_offset, is_state, offset` is the order in which everything happened (false sorts first).
- `problem` is null, or says why the other columns are: an unknown type or version, or malformed bytes. Such records are
  kept, so that counts are complete.
- `value_json` is the whole record, key and value, as JSON; null for commits and CommitDecided, whose columns are complete.
"""

import pyarrow as pa

RAW, COMMITS, STATE, EVENTS, HISTORY = "raw", "commits", "state", "events", "history"
SHARE_STATE = "share_state"
VIEWS = (RAW, COMMITS, STATE, EVENTS, HISTORY, SHARE_STATE)

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
"""A partition in an assignment. Consumer groups' records name the topic by id, classic groups' by name; the other is null.

`epoch`: since when the member has it (KIP-1251); null if not recorded.
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

`assignment` is null if the bytes are not a ConsumerProtocol assignment; only then does `assignment_bytes` have them.
"""

COMMITTED = pa.struct(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("error", pa.string()),
        ("assignment_epoch", pa.int32()),
        ("previous_offset", pa.int64()),
        ("owner_id", pa.string()),
    ]
)
"""A partition in an event: of a commit, or of an assignment (then all after the partition are null, except that of an invalid
assignment `error` is the broken rule).

`error` is null if accepted. `assignment_epoch` is null if the member did not own the partition. Only an offset that went back
(OffsetsRewound) has `previous_offset`, and `owner_id` if a member had the partition.
"""

WAITED = pa.struct([("member_id", pa.string()), ("waited_ms", pa.int64())])

SHARE_BATCH = pa.struct(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("state", pa.string()),
        ("delivery_count", pa.int16()),
    ]
)
"""Records of a share partition; both offsets are inclusive.

`state`: AVAILABLE, ACKNOWLEDGED or ARCHIVED, and ARCHIVING where a Kafka has a dead-letter queue. Acquired records are in no
record of this log.
"""

DELIVERED = pa.struct(
    [
        ("first_offset", pa.int64()),
        ("last_offset", pa.int64()),
        ("delivery_count", pa.int16()),
        ("acknowledge_type", pa.string()),
    ]
)
"""Records in an event of a share group; both offsets are inclusive.

`acknowledge_type`: gap, accept, release or reject in RecordsAcknowledged, else null.
"""

_RAW: _Columns = [
    ("batch_offset", pa.int64()),
    ("is_control", pa.bool_()),  # always false in other views, which have no markers
    ("key", pa.binary()),
    ("value", pa.binary()),  # null: tombstone
    ("key_type", pa.int16()),  # null: control record, or key too short
    ("value_version", pa.int16()),
    ("control_type", pa.int16()),  # 0 abort, 1 commit; null unless is_control
]

_COMMITS: _Columns = [
    ("group", pa.string()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("topic_id", pa.string()),
    ("committed_offset", pa.int64()),  # null: tombstone
    ("leader_epoch_committed", pa.int32()),
    ("metadata", pa.string()),
    ("commit_timestamp_ms", pa.int64()),
    ("expire_timestamp_ms", pa.int64()),  # only in values of version 1
    ("value_version", pa.int16()),
    ("problem", pa.string()),
]

_SHARED: _Columns = [
    ("type", pa.string()),  # the record's name without Key or Value; "Unknown(N)" for an undefined type
    ("state_offset", pa.int64()),
    ("group", pa.string()),
    ("group_kind", pa.string()),  # classic, consumer, streams, share
    ("member_id", pa.string()),
    ("instance_id", pa.string()),
    ("client_id", pa.string()),
    ("client_host", pa.string()),
    ("epoch", pa.int32()),  # state: group epoch or generation; events: see the schemas of the event log
    ("member_epoch", pa.int32()),
    ("revocation_epoch", pa.int32()),
    ("problem", pa.string()),
    ("value_json", pa.string()),
]

_STATE_ONLY: _Columns = [
    ("tombstone", pa.bool_()),
    ("previous_member_epoch", pa.int32()),
    ("target_epoch", pa.int32()),
    ("state", pa.string()),  # of the member: STABLE, UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS (streams: _TASKS)
    ("generation", pa.int32()),
    ("leader", pa.string()),
    ("protocol", pa.string()),
    ("protocol_type", pa.string()),
    ("rebalance_timeout_ms", pa.int32()),
    ("subscribed_topics", pa.list_(pa.string())),
    ("subscribed_regex", pa.string()),
    ("assignment", pa.list_(PARTITION)),  # target or current, depending on the type
    ("pending_revocation", pa.list_(PARTITION)),
    ("members", pa.list_(CLASSIC_MEMBER)),
]

_EVENTS_ONLY: _Columns = [
    ("time_ms", pa.int64()),
    ("state_end_offset", pa.int64()),  # on the last event of a batch
    ("error", pa.string()),  # null: accepted
    ("policy", pa.string()),  # the fencing policy; of an invalid assignment: report or refuse
    ("strict_accepts", pa.bool_()),  # the verdict of each fencing policy; null: undecided
    ("revocation_epoch_accepts", pa.bool_()),
    ("assignment_epoch_accepts", pa.bool_()),
    ("transactional_id", pa.string()),
    ("commit_producer_id", pa.int64()),
    ("commit_producer_epoch", pa.int16()),
    ("cause", pa.string()),
    ("reason", pa.string()),
    ("duration_ms", pa.int64()),
    ("delay_ms", pa.int64()),  # the part of a rebalance's duration that a setting caused
    ("member_count", pa.int32()),
    ("waited_for", pa.list_(WAITED)),
    ("partitions", pa.list_(COMMITTED)),
    ("ranges", pa.list_(DELIVERED)),
    ("loaded_ms", pa.int64()),  # when the leader loaded the share partition: no lock outlives it
    ("event_number", pa.int64()),  # of the same load: an event that came twice from another worker has it again
    ("queue_topic", pa.string()),  # of dead letters
    ("queue_partition", pa.int32()),
    ("queue_offset", pa.int64()),  # of the first of them; null: `reason` says why they are not in the queue
    ("timeout", pa.string()),
    ("timeout_ms", pa.int64()),
    ("client_port", pa.int32()),  # of the connection that a member joined over, or used last before it expired
    ("connection_end", pa.string()),  # of that connection: closed, reset, or why the server closed it
    ("connection_closed_ms", pa.int64()),
    ("principal", pa.string()),  # who took offsets back
    ("api", pa.string()),
    ("run_id", pa.string()),
    ("previous_state_offset", pa.int64()),
    ("previous_time_ms", pa.int64()),
    ("covered_state_offset", pa.int64()),
    ("undone_from_offset", pa.int64()),
    ("cleanly_closed", pa.bool_()),
]

_SHARE_STATE: _Columns = [
    ("type", pa.string()),  # ShareSnapshot: the whole state; ShareUpdate: what one write adds; "Unknown(N)"
    ("group", pa.string()),
    ("topic_id", pa.string()),
    ("partition", pa.int32()),
    ("tombstone", pa.bool_()),  # the state was deleted
    ("snapshot_epoch", pa.int32()),  # counts the snapshots; an update has that of the snapshot before it
    ("state_epoch", pa.int32()),  # of a snapshot: the group's epoch when the state began
    ("partition_leader_epoch", pa.int32()),  # of the leader that wrote it; null: an update that does not change it
    ("start_offset", pa.int64()),  # null: not decided yet (a snapshot), or not changed (an update)
    (
        "delivery_complete_count",
        pa.int32(),
    ),  # records from the start on that are done with; null: the writer did not say
    ("create_ms", pa.int64()),  # of a snapshot
    ("write_ms", pa.int64()),
    ("batches", pa.list_(SHARE_BATCH)),
    ("problem", pa.string()),
    ("value_json", pa.string()),
]

SCHEMAS: dict[str, pa.Schema] = {
    RAW: pa.schema(ENVELOPE + _RAW),
    COMMITS: pa.schema(ENVELOPE + _COMMITS),
    STATE: pa.schema(ENVELOPE + _SHARED + _STATE_ONLY),
    EVENTS: pa.schema(ENVELOPE + _SHARED + _EVENTS_ONLY),
    HISTORY: pa.schema([*ENVELOPE, ("is_state", pa.bool_()), *_SHARED, *_STATE_ONLY, *_EVENTS_ONLY]),
    SHARE_STATE: pa.schema(ENVELOPE + _SHARE_STATE),
}
