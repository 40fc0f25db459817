"""The records of a commit, as one object, have the bytes and the effect of single records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.groups.offsets import validate_partitions as validation
from coordinator.groups.offsets.commit import ANSWERS
from coordinator.groups.offsets.records import GroupTombstones
from coordinator.groups.offsets.validate_partitions import validate_in_pieces, validate_partitions
from coordinator.groups.offsets.value import NO_TOPIC_ID
from coordinator.log.batch_builder import BatchBuilder
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import GroupMetadataKey, OffsetCommitRequest
from coordinator.runtime.result import Producer, Record, Records
from coordinator.runtime.serde import Serde
from tests.groups.offsets.offset_coordinator import CODEC, KEYS, OffsetCoordinator

Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = OffsetCommitRequest.OffsetCommitRequestPartition
SERDE = Serde(CODEC, KEYS)

partitions = st.builds(
    Partition,
    partition_index=st.integers(0, 3_000),
    committed_offset=st.integers(-1, 2**63 - 1),
    committed_leader_epoch=st.integers(-1, 2**31 - 1),
    committed_metadata=st.none() | st.text(max_size=300),
)
topics = st.builds(
    Topic,
    name=st.text(min_size=1, max_size=20),
    topic_id=st.sampled_from([NO_TOPIC_ID, b"t" * 16]),
    partitions=st.lists(partitions, min_size=1, max_size=5),
)
requests = st.builds(OffsetCommitRequest, group_id=st.text(max_size=20), topics=st.lists(topics, max_size=3))


@pytest.mark.parametrize("expire_ms", [None, 9_000])
@given(request=requests)
def test_bytes_and_state_are_those_of_single_records(expire_ms, request):
    answer, records, is_partly_refused = validate_partitions(request, ANSWERS, 256, 1_000, expire_ms)
    assert isinstance(records, Records)
    assert len(records) == len(list(records))
    assert list(records.encoded()) == [SERDE.encode(record) for record in records]
    together, one_by_one = OffsetCoordinator().state, OffsetCoordinator().state
    records.replay(together)
    for record in records:
        one_by_one.replay(record)
    assert together.offsets.by_group == one_by_one.offsets.by_group
    assert together.offsets.count == one_by_one.offsets.count
    assert together.by_id.keys() == one_by_one.by_id.keys()
    refused = [each for topic in answer.topics for each in topic.partitions if each.error_code]
    assert {each.error_code for each in refused} <= {ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert (len(refused) > 0) is is_partly_refused
    assert len(refused) + len(records) == sum(len(topic.partitions) for topic in request.topics)


@given(request=requests)
def test_pending_offsets_are_those_of_single_records(request):
    _, records, _ = validate_partitions(request, ANSWERS, 256, 1_000, None)
    together, one_by_one = OffsetCoordinator().state, OffsetCoordinator().state
    for producer in (Producer(7, 1), Producer(8, 0), Producer(7, 2)):
        records.replay_pending(together, producer)
        Records.replay_pending(records, one_by_one, producer)
    assert together.offsets.pending.by_group == one_by_one.offsets.pending.by_group
    assert together.offsets.pending.by_producer == one_by_one.offsets.pending.by_producer
    assert together.by_id.keys() == one_by_one.by_id.keys()


@pytest.mark.long
@pytest.mark.parametrize("expire_ms", [None, 9_000])
@given(request=requests, before=st.sampled_from([0, 1, 5]))
def test_what_is_validated_in_pieces_is_what_is_validated_at_once(expire_ms, request, before):
    """`before`: records that are in the batch already."""
    at_once = validate_partitions(request, ANSWERS, 256, 1_000, expire_ms)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(validation, "PIECE_PARTITIONS", 2)
        work, pieces = validate_in_pieces(request, ANSWERS, 256, 1_000, expire_ms), 0
        while True:
            try:
                next(work)
            except StopIteration as done:
                in_pieces = done.value
                break
            pieces += 1
    assert pieces <= sum(len(topic.partitions) for topic in request.topics)
    assert in_pieces[0] == at_once[0]
    assert in_pieces[2] is at_once[2]
    batches = []
    for _, records, _ in (at_once, in_pieces):
        batch = BatchBuilder()
        batch.add_all([(b"earlier", b"record")] * before)
        records.add_to(batch)
        batches.append((batch.build(0, 0), batch.count, batch.size_bytes, len(records), list(records)))
    assert batches[0] == batches[1]


@given(request=requests)
def test_decoding_gives_what_the_state_holds(request):
    _, records, _ = validate_partitions(request, ANSWERS, 4_096, 1_000, None)
    for record, (key, value) in zip(records, records.encoded(), strict=True):
        assert SERDE.decode(key, value) == record


partition_keys = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 3))


@given(
    committed=st.lists(partition_keys, unique=True),
    pending=st.lists(partition_keys, unique=True),
    deleted=st.lists(partition_keys, unique=True),
)
def test_tombstones_of_groups_are_those_of_single_records(committed, pending, deleted):
    records = GroupTombstones()
    records.add("g", deleted, [Record(GroupMetadataKey("g"), None)])
    records.add("h", deleted, [])
    assert len(records) == len(list(records))
    together, one_by_one = BatchBuilder(), BatchBuilder()
    records.add_to(together)
    one_by_one.add_all([SERDE.encode(record) for record in records])
    assert together.records() == one_by_one.records()
    states = []
    for replay in (records.replay, lambda state: [state.replay(each) for each in records]):
        coordinator = OffsetCoordinator()
        for name in "tu":
            coordinator.topics.add(name, 4)
        for group_id in "gh":
            coordinator.commit(group_id, dict.fromkeys(committed, 1)) if committed else None
            coordinator.stage(group_id, dict.fromkeys(pending, 2)) if pending else None
        replay(coordinator.state)
        offsets = coordinator.state.offsets
        states.append((offsets.by_group, offsets.count, offsets.pending.by_group, coordinator.state.by_id.keys()))
    assert states[0] == states[1]
