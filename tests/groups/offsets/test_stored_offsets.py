"""The state keeps an offset as the bytes of its record, and nothing of it is lost."""

from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.offsets import value as values
from coordinator.groups.offsets.value import NO_TIMESTAMP, NO_TOPIC_ID, VERSION, VERSION_WITH_EXPIRY
from coordinator.protocol.messages import OffsetCommitKey, OffsetCommitValue
from coordinator.runtime.result import Record
from coordinator.runtime.serde import Serde
from tests.groups.offsets.offset_coordinator import CODEC, KEYS, OffsetCoordinator

SERDE = Serde(CODEC, KEYS)
KEY = OffsetCommitKey("g", "t", 0)
int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)

epochs = st.integers(-1, 2**31 - 1)
ids = st.sampled_from([NO_TOPIC_ID, b"t" * 16])
plain = st.builds(
    OffsetCommitValue, int64, epochs, st.just(""), int64, st.just(-1), st.binary(min_size=16, max_size=16)
)
with_metadata = st.builds(OffsetCommitValue, int64, epochs, texts, int64, st.just(-1), ids)
with_expiry = st.builds(OffsetCommitValue, int64, st.just(-1), texts, int64, st.integers(0, 2**63 - 1))


@given(value=st.one_of(plain, with_metadata, with_expiry))
def test_a_value_is_stored_as_the_bytes_of_its_record(value):
    stored = values.encode(value)
    version = VERSION if value.expire_timestamp == NO_TIMESTAMP else VERSION_WITH_EXPIRY
    assert stored == SERDE.encode(Record(KEY, value, version))[1]
    assert values.decode(stored) == value
    assert values.times(stored) == (value.commit_timestamp, value.expire_timestamp)
    assert values.fetched(stored) == (value.offset, value.leader_epoch, value.metadata, value.topic_id)


@given(value=st.one_of(plain, with_metadata, with_expiry))
def test_a_value_is_plain_if_it_has_a_topic_id_and_no_metadata(value):
    """Also if another value happens to have as many bytes."""
    is_plain = not value.metadata and value.topic_id != NO_TOPIC_ID and value.expire_timestamp == NO_TIMESTAMP
    assert values.is_plain(values.encode(value)) is is_plain


def test_values_of_other_kinds_that_have_as_many_bytes_are_not_plain():
    size = len(values.encode(OffsetCommitValue(1, 2, "", 3, -1, b"t" * 16)))
    without_id = OffsetCommitValue(1, 2, "m" * 18, 3)
    expiring = OffsetCommitValue(1, -1, "m" * 14, 3, 4)
    for value in (without_id, expiring):
        stored = values.encode(value)
        assert len(stored) == size
        assert not values.is_plain(stored)
        assert values.decode(stored) == value
    assert values.times(stored) == (value.commit_timestamp, value.expire_timestamp)
    assert values.fetched(stored) == (value.offset, value.leader_epoch, value.metadata, value.topic_id)


def test_groups_share_the_keys_of_their_partitions():
    """A key of its own would take as much memory as the value."""
    groups = OffsetCoordinator().state
    for group_id in ("g", "h"):
        topic = b"topic".decode()  # another object each time, as from a request
        key = OffsetCommitKey(group_id, topic, 7)
        groups.replay(Record(key, OffsetCommitValue(1, -1, "", 2, -1, b"t" * 16), VERSION))
    (first,), (second,) = groups.offsets.by_group.values()
    assert first is second
    assert first == ("topic", 7)
