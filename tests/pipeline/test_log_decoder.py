"""Columns decoded from many batches in lockstep equal the results of a plain loop over our codec."""

import json
from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.groups.kinds import Kind
from coordinator.log.batch import decode_records, read_header
from coordinator.protocol import messages
from coordinator.protocol.codec import Codec
from coordinator.protocol.schema import SchemaError
from coordinator.protocol.wire import DecodeError
from pyspark_coordinator_log import batches, columns
from pyspark_coordinator_log import messages as record_messages
from pyspark_coordinator_log.batches import BadBatch
from pyspark_coordinator_log.commits import topic_id_text
from tests.pipeline import foreign_logs as made
from tests.pipeline.foreign_logs import Commit, read


def decoded_one_by_one(content: bytes) -> list[dict[str, Any]]:
    """Decodes the commits record by record."""
    out, position = [], 0
    while position < len(content):
        header = read_header(content, position)
        if not header.is_control:
            out += [
                decoded_commit(header, record)
                for record in decode_records(content, position, header)
                if record.key is not None and record.key[:2] in (b"\0\0", b"\0\1")
            ]
        position += header.size_bytes
    return out


def decoded_commit(header, record) -> dict[str, Any]:
    key = decoded_exactly("OffsetCommitKey", 0, record.key)
    value, version = None, None
    if record.value is not None:
        version = int.from_bytes(record.value[:2])
        value = decoded_exactly("OffsetCommitValue", version, record.value)
    return {
        "shard": 3,
        "log_id": "log",
        "leader_epoch": header.leader_epoch,
        "offset": record.offset,
        "timestamp_ms": record.timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_transactional": header.is_transactional,
        "group": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "topic_id": None if value is None or not any(value.topic_id) else topic_id_text(value.topic_id),
        "committed_offset": None if value is None else value.offset,
        "leader_epoch_committed": None if value is None or value.leader_epoch < 0 else value.leader_epoch,
        "metadata": None if value is None else value.metadata,
        "commit_timestamp_ms": None if value is None else value.commit_timestamp,
        "expire_timestamp_ms": None if value is None or value.expire_timestamp < 0 else value.expire_timestamp,
        "value_version": version,
        "problem": None,
    }


def decoded_exactly(name: str, version: int, content: bytes) -> Any:
    """The message after the first two bytes. Unlike the codec, refuses trailing bytes."""
    message, end = Codec.of().decoder(name, version)(content, 2)
    if end != len(content):
        raise DecodeError(f"{len(content) - end} bytes after {name}")
    return message


TEXTS = st.text(max_size=12) | st.sampled_from(["", "a" * 200, "größe", "\N{GRINNING FACE}"])
COMMITS = st.builds(
    Commit,
    group=TEXTS,
    topic=TEXTS,
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-1, 2**63 - 1),
    version=st.none() | st.integers(0, 4),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=TEXTS,
    timestamp_ms=st.integers(0, 2**62),
    expire_ms=st.integers(-1, 2**62),
    topic_id=st.binary(min_size=16, max_size=16) | st.just(b"\0" * 16) | st.just(b"\x07" * 16),
    key_type=st.sampled_from([0, 1]),
)
OTHERS = st.sampled_from(
    [
        (made.encoded(messages.GroupMetadataKey("g"), 0), None),
        (b"\0\x63what", b"\0\0ever"),
        (b"", b""),
        (None, None),
        (None, b"x" * 300),
    ]
)


@st.composite
def logs(draw) -> bytes:
    parts: list[bytes] = []
    offset = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.integers(0, 9)) == 0:
            parts.append(made.marker(offset, commit=draw(st.booleans()), producer_id=draw(st.integers(0, 2**40))))
            offset += 1
            continue
        rows = draw(st.lists(COMMITS.map(made.key_value) | OTHERS, min_size=1, max_size=8))
        rows *= draw(st.sampled_from([1, 1, 1, 30]))
        gaps = draw(st.sampled_from([1, 1, 3]))
        offsets = [offset + index * gaps for index in range(len(rows))]
        times = [made.NOW_MS + draw(st.integers(-(2**33), 2**33)) for _ in rows[:8]] * 30
        parts.append(
            made.batch(
                offset,
                rows,
                offsets=offsets,
                timestamps=times[: len(rows)] if len(times) >= len(rows) else None,
                leader_epoch=draw(st.integers(0, 100)),
                producer_id=draw(st.sampled_from([-1, 7])),
                attributes=draw(st.sampled_from([0, made.TRANSACTIONAL, made.LOG_APPEND_TIME])),
            )
        )
        offset = offsets[-1] + 1
    return b"".join(parts)


@settings(max_examples=60)
@given(logs())
def test_commits_equal_those_decoded_one_by_one(content):
    assert read(content, "commits") == decoded_one_by_one(content)


@settings(max_examples=30)
@given(logs())
def test_raw_keeps_every_record_unchanged(content):
    expected, position = [], 0
    while position < len(content):
        header = read_header(content, position)
        expected += [
            (r.offset, r.timestamp, r.key, r.value, header.is_control)
            for r in decode_records(content, position, header)
        ]
        position += header.size_bytes
    rows = read(content, "raw")
    assert [(r["offset"], r["timestamp_ms"], r["key"], r["value"], r["is_control"]) for r in rows] == expected


@settings(max_examples=30)
@given(logs(), st.integers(0, 2**32 - 1))
def test_a_changed_byte_is_detected_by_the_checksum(content, where):
    header = read_header(content)
    at = 21 + where % (header.size_bytes - 21)
    broken = content[:at] + bytes([content[at] ^ 0x5A]) + content[at + 1 :]
    with pytest.raises(BadBatch) as refused:
        read(broken, "raw")
    assert refused.value.position == 0


@settings(max_examples=80)
@given(st.binary(max_size=120), st.integers(0, 200))
def test_garbage_with_a_correct_checksum_is_refused_or_read(body, count):
    """For any bytes: a result or BadBatch, and no access outside of the batch."""
    header = made.batch(5, [(b"k", b"v")])[:57] + count.to_bytes(4)
    content = made.resealed(header + body)
    for view in columns.VIEWS:
        try:
            assert len(read(content, view)) <= count
        except BadBatch as error:
            assert error.position == 0


def assert_read_as_by_codec(content: bytes) -> None:
    """The row equals the codec's result, or has a problem exactly if the codec refuses the record."""
    [row] = read(content, "commits")
    try:
        expected = decoded_one_by_one(content)
    except (DecodeError, SchemaError):
        assert row["problem"] is not None
        assert row["committed_offset"] is None
    else:
        assert [row] == expected


@settings(max_examples=80)
@given(st.sampled_from([b"\0\0", b"\0\1"]), st.binary(max_size=40), st.binary(max_size=80), st.integers(-1, 6))
def test_an_invalid_commit_is_kept_and_has_a_problem(kind, key, value, version):
    assert_read_as_by_codec(made.batch(0, [(kind + key, version.to_bytes(2, signed=True) + value)]))


@settings(max_examples=200)
@given(COMMITS.filter(lambda commit: commit.version is not None), st.booleans(), st.data())
def test_a_damaged_commit_has_a_problem_exactly_if_the_codec_refuses_it(commit, in_key, data):
    """Bytes of a valid commit are removed, replaced or inserted; the type in its key stays."""
    key, value = made.key_value(commit)
    assert value is not None
    record = (made.damaged(key, data, start=2), value) if in_key else (key, made.damaged(value, data))
    assert_read_as_by_codec(made.batch(0, [record]))


def test_group_kinds_are_those_of_the_server():
    assert {kind: record_messages.group_kind(kind) for kind in Kind} == {kind: kind.label for kind in Kind}


@pytest.mark.parametrize(
    ("codec", "framed"),
    [(made.GZIP, False), (made.SNAPPY, False), (made.SNAPPY, True), (made.LZ4, False), (made.ZSTD, False)],
)
def test_compressed_batches_read_like_uncompressed_ones(codec, framed):
    rows = [Commit(f"g{index % 7}", "t" * 20, index, index, metadata="m" * 30) for index in range(300)]
    plain = made.commits(0, rows[:100]) + made.commits(100, rows[100:200]) + made.commits(200, rows[200:])
    packed = (
        made.commits(0, rows[:100], codec=codec, framed=framed)
        + made.commits(100, rows[100:200])
        + made.commits(200, rows[200:], codec=codec, framed=framed)
    )
    assert read(packed, "commits") == read(plain, "commits")


@pytest.mark.parametrize("codec", [made.GZIP, made.SNAPPY, made.LZ4, made.ZSTD, 5, 7])
def test_wrongly_declared_compression_is_a_bad_batch(codec):
    plain = made.batch(0, [(b"k", b"v")])
    lying = made.resealed(plain[:21] + codec.to_bytes(2) + plain[23:])
    with pytest.raises(BadBatch, match=r"unknown compression|invalid (gzip|snappy|lz4|zstd) data"):
        read(lying, "raw")


def test_a_decompression_bomb_is_refused():
    import gzip

    plain = made.batch(0, [(b"k", b"v")])
    bomb = gzip.compress(bytes(65 * 1024 * 1024), 9)
    with pytest.raises(BadBatch, match="the data is too large"):
        read(made.resealed(plain[:21] + made.GZIP.to_bytes(2) + plain[23:61] + bomb), "raw")


def test_a_marker_is_not_a_commit_although_its_key_begins_like_one():
    content = made.marker(0, commit=True, producer_id=9) + made.marker(1, commit=False, producer_id=9)
    assert read(content, "commits") == []
    assert read(content, "state") == []
    assert [(row["control_type"], row["key_type"], row["producer_id"]) for row in read(content, "raw")] == [
        (1, None, 9),
        (0, None, 9),
    ]


def test_unknown_record_types_are_kept_and_counted():
    content = made.batch(0, [(b"\0\x63abc", b"\0\0x"), (b"\x03\xe8", None)])
    rows = read(content, "state")
    assert [row["type"] for row in rows] == ["Unknown(99)", "EventLogOpened"]
    assert "unknown record type" in rows[0]["problem"]
    assert "AGNhYmM=" in rows[0]["value_json"]


def test_a_value_of_a_newer_version_is_kept_and_has_a_problem():
    key, value = made.key_value(Commit("g", "t", 0, 5))
    assert value is not None
    content = made.batch(0, [(key, b"\0\x09" + value[2:])])
    [row] = read(content, "commits")
    assert (row["group"], row["committed_offset"], row["problem"]) == ("g", None, "version 9 is not known")


def test_invalid_utf8_is_decoded_as_kafka_does():
    key = b"\0\1" + b"\0\2\xff\xfe" + b"\0\1t" + bytes(4)
    [row] = read(made.batch(0, [(key, None)]), "commits")
    assert row["group"] == "\N{REPLACEMENT CHARACTER}" * 2


def test_groups_and_times_select_records_in_every_view():
    rows = [Commit(group, "t", 0, 1) for group in ("a", "b", "a", "c")]
    times = [made.NOW_MS + index * 1000 for index in range(4)]
    content = made.batch(0, [made.key_value(row) for row in rows], timestamps=times)
    assert [row["offset"] for row in read(content, "commits", groups=frozenset({"a", "c"}))] == [0, 2, 3]
    assert [row["offset"] for row in read(content, "raw", groups=frozenset({"b"}))] == [1]
    limits = {"since_ms": times[1], "until_ms": times[3]}
    assert [row["offset"] for row in read(content, "commits", **limits)] == [1, 2]


def test_the_state_of_a_consumer_group_is_decoded_to_columns():
    current = messages.ConsumerGroupCurrentMemberAssignmentValue
    owned = current.TopicPartitions(topic_id=b"\x07" * 16, partitions=[1, 2], assignment_epochs=[4, 5])
    value = current(member_epoch=5, previous_member_epoch=4, state=1, assigned_partitions=[owned], revocation_epoch=3)
    key = messages.ConsumerGroupCurrentMemberAssignmentKey("g", "m")
    content = made.batch(0, [(made.encoded(key, 0), made.encoded(value, 0)), (made.encoded(key, 0), None)])
    row, gone = read(content, "state")
    assert (row["type"], row["group"], row["member_id"], row["group_kind"]) == (
        "ConsumerGroupCurrentMemberAssignment",
        "g",
        "m",
        "consumer",
    )
    assert (row["member_epoch"], row["previous_member_epoch"], row["state"]) == (5, 4, "UNREVOKED_PARTITIONS")
    topic_id = topic_id_text(b"\x07" * 16)
    assert row["assignment"] == [
        {"topic": None, "topic_id": topic_id, "partition": 1, "epoch": 4},
        {"topic": None, "topic_id": topic_id, "partition": 2, "epoch": 5},
    ]
    assert (row["tombstone"], gone["tombstone"], gone["assignment"]) == (False, True, None)


def test_the_state_of_a_streams_group_has_columns_and_its_tasks_as_json():
    def pair(key, value):
        return made.encoded(key, 0), made.encoded(value, 0)

    current = messages.StreamsGroupCurrentMemberAssignmentValue
    tasks = [current.TaskIds("0", [1, 2], [4, 5])]
    target = messages.StreamsGroupTargetAssignmentMemberValue
    records = [
        pair(messages.StreamsGroupMemberMetadataKey("g", "m"), messages.StreamsGroupMemberMetadataValue(client_id="c")),
        pair(messages.StreamsGroupTopologyKey("g"), messages.StreamsGroupTopologyValue(epoch=2)),
        pair(messages.StreamsGroupMetadataKey("g"), messages.StreamsGroupMetadataValue(epoch=5)),
        pair(messages.StreamsGroupTargetAssignmentMemberKey("g", "m"), target([target.TaskIds("0", [1, 2])])),
        pair(
            messages.StreamsGroupTargetAssignmentMetadataKey("g"),
            messages.StreamsGroupTargetAssignmentMetadataValue(5),
        ),
        pair(messages.StreamsGroupCurrentMemberAssignmentKey("g", "m"), current(5, 4, 2, tasks)),
    ]
    rows = read(made.batch(0, records), "state")
    assert {(row["group"], row["group_kind"], row["problem"]) for row in rows} == {("g", "streams", None)}
    member, _, group, _, target_epoch, held = rows
    assert (member["client_id"], group["epoch"], target_epoch["target_epoch"]) == ("c", 5, 5)
    assert (held["member_epoch"], held["previous_member_epoch"], held["state"]) == (5, 4, "UNREVOKED_TASKS")
    assert json.loads(held["value_json"])["value"]["active_tasks"] == [
        {"subtopology_id": "0", "partitions": [1, 2], "assignment_epochs": [4, 5]}
    ]


def test_a_classic_group_shows_the_assignment_of_each_member():
    from coordinator.protocol.subscription import Assignment, encode_assignment

    member = messages.GroupMetadataValue.MemberMetadata
    given = encode_assignment(Assignment({"t": (0, 3)}, None, 1))
    members = [member(member_id="m", client_id="c", client_host="/h", assignment=given)]
    members.append(member(member_id="n", assignment=b"\xff"))
    value = messages.GroupMetadataValue(protocol_type="consumer", generation=7, leader="m", members=members)
    key = made.encoded(messages.GroupMetadataKey("g"), 0)
    [row] = read(made.batch(0, [(key, made.encoded(value, 3))]), "state")
    assert (row["epoch"], row["generation"], row["leader"], row["group_kind"]) == (7, 7, "m", "classic")
    assert row["members"][0]["assignment"] == [
        {"topic": "t", "topic_id": None, "partition": 0, "epoch": None},
        {"topic": "t", "topic_id": None, "partition": 3, "epoch": None},
    ]
    assert (row["members"][1]["assignment"], row["members"][1]["assignment_bytes"]) == (None, b"\xff")


def test_a_rebalance_from_outside_is_state_of_a_classic_group():
    value = messages.ClassicGroupForcedRebalanceValue(7, "an administrator forced a rebalance", "a test")
    pair = made.encoded(messages.ClassicGroupForcedRebalanceKey("g"), 0), made.encoded(value, 0)
    (forced,) = read(made.batch(0, [pair]), "state")
    assert (forced["type"], forced["group"], forced["group_kind"]) == ("ClassicGroupForcedRebalance", "g", "classic")
    assert json.loads(forced["value_json"])["value"] == {
        "version": 0,
        "generation": 7,
        "cause": "an administrator forced a rebalance",
        "reason": "a test",
    }


def test_a_resync_is_state_of_a_classic_group():
    key = made.encoded(messages.ClassicGroupResyncKey("g"), 0)
    value = made.encoded(messages.ClassicGroupResyncValue(generation=7, resyncs=2), 0)
    resynced, gone = read(made.batch(0, [(key, value), (key, None)]), "state")
    assert (resynced["type"], resynced["group"], resynced["group_kind"]) == ("ClassicGroupResync", "g", "classic")
    assert (resynced["generation"], resynced["problem"], gone["tombstone"]) == (7, None, True)
    assert json.loads(resynced["value_json"])["value"]["resyncs"] == 2


def test_a_generation_without_an_assignment_is_state_of_a_classic_group():
    """Its type is one of ours, as those of events are, and it is no event."""
    member = messages.ClassicGroupGenerationValue.MemberMetadata
    members = [member(member_id="i-1", group_instance_id="i", client_id="c", client_host="/h", subscription=b"s")]
    value = messages.ClassicGroupGenerationValue("consumer", 7, "range", "i-1", made.NOW_MS, members)
    key = made.encoded(messages.ClassicGroupGenerationKey("g"), 0)
    formed, gone = read(made.batch(0, [(key, made.encoded(value, 0)), (key, None)]), "state")
    assert (formed["type"], formed["group"], formed["group_kind"]) == ("ClassicGroupGeneration", "g", "classic")
    assert (formed["generation"], formed["leader"], formed["protocol"], formed["problem"]) == (7, "i-1", "range", None)
    (named,) = formed["members"]
    assert (named["member_id"], named["instance_id"], named["client_id"], named["assignment"]) == (
        "i-1",
        "i",
        "c",
        None,
    )
    assert json.loads(formed["value_json"])["value"]["members"][0]["subscription"] == "cw=="
    assert (gone["tombstone"], gone["group"]) == (True, "g")


def test_a_batch_of_another_format_version_is_refused():
    content = bytearray(made.batch(0, [(b"k", b"v")]))
    for magic, word in ((1, "before Kafka 0.11"), (3, "unknown version 3")):
        content[16] = magic
        with pytest.raises(BadBatch, match=word):
            batches.walk(bytes(content), len(content))
