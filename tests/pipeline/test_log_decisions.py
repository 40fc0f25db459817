"""Decisions decoded by column equal those decoded by the codec, and uncommon forms are left to the codec."""

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol import messages as kafka
from pyspark_coordinator_log import columns, decisions, messages
from tests.pipeline import foreign_logs as made
from tests.pipeline.foreign_logs import read

VALUE = kafka.CommitDecidedValue
TEXTS = st.text(max_size=8) | st.just("a" * 150)
VERDICTS = st.integers(0, 3)
INT16, INT32, INT64 = (st.integers(-1, 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
TOPICS = st.builds(
    VALUE.TopicOffsets,
    topic_name=TEXTS,
    topic_id=st.just(b"\0" * 16) | st.binary(min_size=16, max_size=16),
    partitions=st.lists(
        st.builds(
            VALUE.TopicOffsets.PartitionOffset
            if hasattr(VALUE.TopicOffsets, "PartitionOffset")
            else VALUE.PartitionOffset,
            partition=INT32,
            committed_offset=INT64,
            error_code=st.sampled_from([0, 25, 113, 999]),
            assignment_epoch=INT32,
        ),
        max_size=5,
    ),
)
DECISIONS = st.builds(
    VALUE,
    state_offset=INT64,
    time_ms=INT64,
    group_kind=st.integers(0, 4),
    member_id=TEXTS,
    group_instance_id=st.none() | TEXTS,
    generation_id_or_member_epoch=INT32,
    error_code=st.sampled_from([0, 22, 27, 110, -1, 1000]),
    policy=st.sampled_from(["", "strict", "revocation-epoch"]),
    strict_verdict=VERDICTS,
    revocation_epoch_verdict=VERDICTS,
    assignment_epoch_verdict=VERDICTS,
    member_epoch=INT32,
    revocation_epoch=INT32,
    producer_id=INT64,
    producer_epoch=INT16,
    transactional_id=st.none() | TEXTS,
    client_id=st.none() | TEXTS,
    topics=st.lists(TOPICS, max_size=4),
    state_end_offset=INT64,
)


def encoded(group: str, value: Any) -> tuple[bytes, bytes]:
    return made.encoded(kafka.CommitDecidedKey(group), 0), made.encoded(value, 0)


def decoded_by_codec(records: list[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
    schema = columns.SCHEMAS["events"]
    out = []
    for key, value in records:
        row = messages.row(key, value)
        out.append({name: row.get(name) for name in schema.names[len(columns.ENVELOPE) :]})
    # Converted through Arrow, so that structs have all fields.
    return pa.Table.from_pylist(
        out, pa.schema([schema.field(name) for name in schema.names[len(columns.ENVELOPE) :]])
    ).to_pylist()


def decoded_by_column(records: list[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
    names = columns.SCHEMAS["events"].names[len(columns.ENVELOPE) :]
    return [{name: row[name] for name in names} for row in read(made.batch(0, records), "events")]


OTHER = (made.encoded(kafka.MemberLeftKey("g"), 0), made.encoded(kafka.MemberLeftValue(member_id="m", epoch=3), 0))


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXTS, DECISIONS).map(lambda pair: encoded(*pair)) | st.just(OTHER), min_size=1, max_size=8))
def test_decisions_equal_those_decoded_one_by_one(records):
    assert decoded_by_column(records) == decoded_by_codec(records)


@settings(max_examples=60)
@given(DECISIONS, st.data())
def test_a_damaged_decision_is_left_to_the_codec(value, data):
    key, content = encoded("g", value)
    records = [(key, made.damaged(content, data)), (key, content), (key, None), (key[:-1], content)]
    assert decoded_by_column(records) == decoded_by_codec(records)


def test_records_of_the_server_are_decoded_by_column(monkeypatch):
    """The common form must not fall back to the slow path unnoticed."""
    monkeypatch.setattr(messages, "row", lambda key, value: pytest.fail("decoded one by one"))
    value = VALUE(state_offset=5, member_id="m", policy="strict", strict_verdict=2, error_code=113)
    [row] = decoded_by_column([encoded("g", value)])
    assert (row["type"], row["group"], row["error"], row["strict_accepts"]) == (
        "CommitDecided",
        "g",
        "STALE_MEMBER_EPOCH",
        False,
    )
    assert decisions.RECORD_TYPE == VALUE.API_KEY
