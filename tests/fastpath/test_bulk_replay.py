"""Bulk replay of the bytes of offset records leads to the state that decoding and replaying them leads to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.fastpath.bulk_replay import OFFSET_COMMIT_TYPE, bulk_replayers
from coordinator.groups.offsets.value import NO_TOPIC_ID, VERSION, VERSION_WITH_EXPIRY
from coordinator.protocol.codec import DecodeError
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.result import Marker, Producer, Record
from coordinator.runtime.serde import Serde, UnknownRecordVersion
from tests.groups.offsets.offset_coordinator import CODEC, KEYS, OffsetCoordinator

PRODUCER = Producer(7, 0)
keys = st.builds(
    OffsetCommitKey, st.sampled_from(["g", "h", "g\ufffd"]), st.sampled_from(["t", "topic"]), st.integers(0, 3)
)
values = st.builds(
    OffsetCommitValue,
    st.integers(-1, 2**62),
    st.integers(-1, 5),
    st.sampled_from(["", "metadata"]),
    st.integers(0, 9),
    st.just(-1),
    st.sampled_from([NO_TOPIC_ID, b"t" * 16, b"u" * 16]),
)
steps = st.lists(
    st.one_of(
        st.builds(Record, keys, values, st.just(VERSION)),
        st.builds(Record, keys, st.builds(OffsetCommitValue, st.integers(0, 9)), st.just(VERSION_WITH_EXPIRY)),
        st.builds(Record, keys, st.none()),
        st.tuples(keys, values),
        st.booleans(),
    ),
    max_size=25,
)


def state(groups):
    offsets = groups.offsets
    committed = {group_id: dict(each) for group_id, each in offsets.by_group.items()}
    pending = {partition: set(each) for group in offsets.pending.by_group.values() for partition, each in group.items()}
    return committed, offsets.count, pending, set(groups.by_id)


@given(steps=steps, tail=st.sampled_from([b"", b"\0\0\0\5"]))
def test_the_state_is_the_same(steps, tail):
    """`tail`: bytes behind the fields of a key, which nobody writes and every reader ignores."""
    serde, bulk, replayed = Serde(CODEC, KEYS), OffsetCoordinator().state, OffsetCoordinator().state
    replay = bulk_replayers(bulk, serde)[OFFSET_COMMIT_TYPE]
    for step in steps:
        if isinstance(step, bool):
            for groups in (bulk, replayed):
                groups.replay_marker(Marker(*PRODUCER, step, 0))
        elif isinstance(step, Record):
            key, value = serde.encode(step)
            replay(key + tail, value)
            replayed.replay(step)
        else:
            for groups in (bulk, replayed):
                key, value = serde.encode(Record(*step, VERSION))
                groups.replay_pending(serde.decode(key, value), PRODUCER)
        assert state(bulk) == state(replayed)


def test_a_record_that_cannot_be_decoded_stops_the_load():
    serde = Serde(CODEC, KEYS)
    replay = bulk_replayers(OffsetCoordinator().state, serde)[OFFSET_COMMIT_TYPE]
    key, value = serde.encode(
        Record(OffsetCommitKey("g", "t", 0), OffsetCommitValue(1, -1, "", 2, -1, b"t" * 16), VERSION)
    )
    replay(key, value)
    with pytest.raises(UnknownRecordVersion):
        replay(key, b"\0\5" + value[2:])
    with pytest.raises(DecodeError):
        replay(key, value[:-1])
    with pytest.raises(DecodeError):
        replay(key[:5], value)
