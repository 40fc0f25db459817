"""OffsetFetch: the answers for offsets that exist and for those that do not."""

import pytest

from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetFetchRequest
from tests.groups.offsets.group_states import MEMBER, live_group
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

P0 = ("topic", 0)
P1 = ("topic", 1)
Group = OffsetFetchRequest.OffsetFetchRequestGroup
Topics = OffsetFetchRequest.OffsetFetchRequestTopics
Topic = OffsetFetchRequest.OffsetFetchRequestTopic


@pytest.fixture
def coordinator() -> OffsetCoordinator:
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 4)
    coordinator.commit("g", {P1: 11, P0: 10})
    return coordinator


@pytest.mark.parametrize("version", range(1, 8))
def test_partitions_without_an_offset_return_minus_one_and_no_error(coordinator, version):
    answer = coordinator.ask(
        "OffsetFetch", version, group_id="g", topics=[Topic("topic", [1, 2, 99]), Topic("nowhere", [0])]
    )
    found = [
        (topic.name, each.partition_index, each.committed_offset, each.metadata, each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]
    none = (-1, "", ErrorCode.NONE)
    assert found == [("topic", 1, 11, "", 0), ("topic", 2, *none), ("topic", 99, *none), ("nowhere", 0, *none)]


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_mean_all_and_an_empty_list_means_none(coordinator, version):
    everything = coordinator.ask("OffsetFetch", version, group_id="g", topics=None)
    assert [(each.partition_index, each.committed_offset) for each in everything.topics[0].partitions] == [
        (0, 10),
        (1, 11),
    ]
    assert coordinator.ask("OffsetFetch", version, group_id="g", topics=[]).topics == []


def test_an_unknown_group_has_no_offsets_and_no_error(coordinator):
    assert coordinator.fetch("nobody") == {}
    assert coordinator.fetch("nobody", [P0]) == {P0: -1}


def test_a_batch_is_answered_in_the_order_of_the_request_whatever_the_shards():
    coordinator = OffsetCoordinator(shards=5)
    coordinator.topics.add("topic", 1)
    names = [f"group-{number}" for number in range(20)]
    for number, name in enumerate(names):
        coordinator.commit(name, {P0: number})
    asked = [Group(name, topics=None) for name in [*reversed(names), "nobody", "group-3"]]
    answer = coordinator.ask("OffsetFetch", 9, groups=asked)
    assert [group.group_id for group in answer.groups] == [group.group_id for group in asked]
    offsets = [
        [each.committed_offset for topic in group.topics for each in topic.partitions] for group in answer.groups
    ]
    assert offsets == [*([number] for number in reversed(range(20))), [], [3]]


def test_a_group_requested_twice_is_answered_twice(coordinator):
    asked = [Group("g", topics=[Topics("topic", partition_indexes=[0])]), Group("g", topics=[])]
    answer = coordinator.ask("OffsetFetch", 8, groups=asked)
    assert [len(group.topics) for group in answer.groups] == [1, 0]


def test_an_empty_batch_returns_no_groups(coordinator):
    assert coordinator.ask("OffsetFetch", 8, groups=[]).groups == []


def test_v10_names_topics_by_id_and_unknown_ones_last(coordinator):
    known, unknown, zero = coordinator.topics.topic_id("topic"), b"u" * 16, bytes(16)
    topics = [Topics(topic_id=each, partition_indexes=[0]) for each in (unknown, known, zero)]
    (group,) = coordinator.ask("OffsetFetch", 10, groups=[Group("g", topics=topics)]).groups
    assert [
        (topic.topic_id, each.committed_offset, each.error_code) for topic in group.topics for each in topic.partitions
    ] == [
        (known, 10, ErrorCode.NONE),
        (unknown, -1, ErrorCode.UNKNOWN_TOPIC_ID),
        (zero, -1, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


def test_v10_cannot_list_a_deleted_topic(coordinator):
    coordinator.topics.add("other", 1)
    coordinator.commit("g", {("other", 0): 5})
    topic_id = coordinator.topics.topic_id("topic")
    del coordinator.topics.topics["other"]
    (by_id,) = coordinator.ask("OffsetFetch", 10, groups=[Group("g", topics=None)]).groups
    (by_name,) = coordinator.ask("OffsetFetch", 9, groups=[Group("g", topics=None)]).groups
    assert [topic.topic_id for topic in by_id.topics] == [topic_id]
    assert [topic.name for topic in by_name.topics] == ["other", "topic"]


def test_an_offset_of_a_deleted_topic_is_not_returned_for_its_namesake(coordinator):
    new_id = coordinator.topics.add("topic", 4, topic_id=(77).to_bytes(16, "big"))
    asked = [Group("g", topics=[Topics(topic_id=new_id, partition_indexes=[0])])]
    (group,) = coordinator.ask("OffsetFetch", 10, groups=asked).groups
    assert group.topics[0].partitions[0].committed_offset == -1
    assert coordinator.fetch("g", [P0]) == {P0: 10}


@pytest.mark.parametrize(("member_id", "epoch"), [("nobody", 5), (MEMBER, 99), (None, 3)])
def test_a_classic_group_does_not_check_member_and_epoch(coordinator, member_id, epoch):
    live_group(coordinator, "g")
    asked = [Group("g", member_id=member_id, member_epoch=epoch, topics=None)]
    (group,) = coordinator.ask("OffsetFetch", 9, groups=asked).groups
    assert group.error_code == ErrorCode.NONE
    assert len(group.topics[0].partitions) == 2


@pytest.mark.parametrize("require_stable", [False, True])
def test_plain_offsets_are_stable(coordinator, require_stable):
    answer = coordinator.ask("OffsetFetch", 7, group_id="g", topics=None, require_stable=require_stable)
    assert len(answer.topics[0].partitions) == 2


def test_a_refusal_has_the_shape_of_its_version(coordinator):
    coordinator.refusing = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    code = coordinator.refusing
    per_partition = coordinator.ask("OffsetFetch", 1, group_id="g", topics=[Topic("topic", [0])])
    assert [(each.committed_offset, each.error_code) for each in per_partition.topics[0].partitions] == [(-1, code)]
    whole = coordinator.ask("OffsetFetch", 7, group_id="g", topics=[Topic("topic", [0])])
    assert (whole.topics, whole.error_code) == ([], code)
    batch = coordinator.ask("OffsetFetch", 8, groups=[Group("g", topics=[Topics("topic", partition_indexes=[0])])])
    assert [(group.group_id, group.topics, group.error_code) for group in batch.groups] == [("g", [], code)]
