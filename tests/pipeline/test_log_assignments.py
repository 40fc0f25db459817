"""Assignments decoded by column equal those decoded by the codec, and uncommon forms are left to the codec."""

from typing import Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.protocol import messages as kafka
from pyspark_coordinator_log import assignments, batches, buffers, columns, messages, views
from tests.pipeline import foreign_logs as made

CURRENT, TARGET = kafka.ConsumerGroupCurrentMemberAssignmentValue, kafka.ConsumerGroupTargetAssignmentMemberValue
NAMES = [
    name
    for name in columns.SCHEMAS["state"].names[len(columns.ENVELOPE) :]
    if name not in {"value_json", "state_offset"}
]
TEXTS = st.text(max_size=8) | st.just("a" * 150)
INT32 = st.integers(-3, 2**31 - 1)
IDS = st.just(b"\0" * 16) | st.binary(min_size=16, max_size=16)
PARTITIONS = st.lists(INT32, max_size=4) | st.just(list(range(200)))


@st.composite
def topics(draw: st.DrawFn) -> list[Any]:
    found = []
    for _ in range(draw(st.integers(0, 3))):
        partitions = draw(PARTITIONS)
        # No epochs, one for each partition, or a wrong number.
        epochs = draw(st.none() | st.just([*range(len(partitions))]) | st.lists(INT32, max_size=3))
        found.append(CURRENT.TopicPartitions(draw(IDS), partitions, epochs))
    return found


CURRENTS = st.builds(
    CURRENT, member_epoch=INT32, previous_member_epoch=INT32, state=st.integers(0, 3),
    assigned_partitions=topics(),
    partitions_pending_revocation=topics(), revocation_epoch=INT32,
)  # fmt: skip
TARGETS = st.builds(TARGET, topic_partitions=st.lists(st.builds(TARGET.TopicPartition, IDS, PARTITIONS), max_size=3))
MEMBER = (
    made.encoded(kafka.ConsumerGroupMemberMetadataKey("g", "m"), 0),
    made.encoded(kafka.ConsumerGroupMemberMetadataValue(client_id="c"), 0),
)


def encoded(group: str, member: str, value: Any) -> tuple[bytes, bytes]:
    key = getattr(kafka, value.NAME.removesuffix("Value") + "Key")
    return made.encoded(key(group, member), 0), made.encoded(value, 0)


def decoded_by_codec(records: list[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
    rows = [messages.row(key, value, with_json=False) for key, value in records]
    schema = pa.schema([columns.SCHEMAS["state"].field(name) for name in NAMES])
    return pa.Table.from_pylist([{name: row.get(name) for name in NAMES} for row in rows], schema).to_pylist()


def decoded_by_column(records: list[tuple[bytes, bytes | None]]) -> list[dict[str, Any]]:
    content = made.batch(0, records)
    source = buffers.Buffer(buffers.padded(content))
    headers = batches.Headers(source, np.array([0], np.int64))
    wanted = views.Wanted(view="state", columns=tuple(NAMES), groups=None, since_ms=None, until_ms=None)
    table = views.table(source, headers, wanted, views.Origin(3, "log", is_state=True), 0, None)
    table.validate(full=True)
    return table.to_pylist()


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(TEXTS, TEXTS, CURRENTS | TARGETS).map(lambda each: encoded(*each)) | st.just(MEMBER),
        min_size=1, max_size=8,
    )
)  # fmt: skip
def test_assignments_equal_those_decoded_one_by_one(records):
    assert decoded_by_column(records) == decoded_by_codec(records)


@settings(max_examples=100)
@given(CURRENTS | TARGETS, st.data())
def test_a_damaged_assignment_is_left_to_the_codec(value, data):
    key, content = encoded("g", "m", value)
    records = [(key, made.damaged(content, data)), (key, content), (key, None), (key[:-1], content)]
    assert decoded_by_column(records) == decoded_by_codec(records)


def test_records_of_the_server_are_decoded_by_column(monkeypatch):
    """The common form must not fall back to the slow path unnoticed."""
    monkeypatch.setattr(messages, "row", lambda *_, **__: pytest.fail("decoded one by one"))
    given_up = [CURRENT.TopicPartitions(b"i" * 16, [7], None)]  # as in Kafka's records
    current = CURRENT(2, 1, 1, [CURRENT.TopicPartitions(b"i" * 16, [3, 4], [1, 2])], given_up, 1)
    target = TARGET([TARGET.TopicPartition(b"i" * 16, [3])])
    rows = decoded_by_column([encoded("g", "m", current), encoded("g", "n", target)])
    assert [(row["member_id"], len(row["assignment"]), row["revocation_epoch"]) for row in rows] == [
        ("m", 2, 1),
        ("n", 1, None),
    ]
    assert (
        kafka.ConsumerGroupCurrentMemberAssignmentKey.API_KEY,
        kafka.ConsumerGroupTargetAssignmentMemberKey.API_KEY,
    ) == (
        assignments.CURRENT,
        assignments.TARGET,
    )
