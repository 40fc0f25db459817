"""OffsetCommit: what is checked, in which order, and what is stored. Answers as a live Kafka 4.4 gave them."""

import pytest

from coordinator.groups.classic.member import session_key
from coordinator.groups.classic.states import State
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetCommitRequest
from coordinator.protocol.releases import Behaviours
from tests.groups.offsets.group_states import (
    GENERATION,
    INSTANCE,
    MEMBER,
    SESSION_MS,
    STATIC,
    emptied_group,
    live_group,
)
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

P0 = ("topic", 0)
P1 = ("topic", 1)
OK = ErrorCode.NONE
Topic = OffsetCommitRequest.OffsetCommitRequestTopic
Partition = OffsetCommitRequest.OffsetCommitRequestPartition


@pytest.fixture
def coordinator() -> OffsetCoordinator:
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 4)
    return coordinator


def commit_one(coordinator, group_id="g", version=8, **who):
    return coordinator.commit(group_id, {P0: 7}, version, **who)[P0]


# --- simple consumers -------------------------------------------------------------------------------------------------


def test_a_commit_without_a_generation_creates_a_simple_group(coordinator):
    assert commit_one(coordinator) == OK
    assert commit_one(coordinator, "h", member_id="m") == OK
    group = coordinator.state.by_id["g"]
    assert (group.state, group.protocol_type, group.stored) == (State.EMPTY, None, None)


def test_a_simple_group_accepts_simple_commits_and_refuses_members(coordinator):
    commit_one(coordinator)
    assert coordinator.commit("g", {P0: 8}) == {P0: OK}
    assert commit_one(coordinator, member_id="m", generation=5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.fetch("g") == {P0: 8}


def test_the_empty_group_id_is_valid(coordinator):
    assert commit_one(coordinator, "") == OK
    assert coordinator.fetch("") == {P0: 7}
    assert coordinator.delete_groups("") == [("", OK)]


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
@pytest.mark.parametrize("member_id", ["", "m"])
def test_a_generation_of_an_unknown_group_is_refused(coordinator, version, code, member_id):
    assert commit_one(coordinator, version=version, generation=0, member_id=member_id) == code
    assert coordinator.log == []


def test_earlier_releases_refuse_it_with_one_error_in_every_version(coordinator):
    coordinator.behaviours = Behaviours(commit_to_no_group_is_old=True)
    assert commit_one(coordinator, version=9, generation=0) == ErrorCode.ILLEGAL_GENERATION


def test_an_empty_group_accepts_commits_without_a_generation_despite_an_instance_id(coordinator):
    emptied_group(coordinator, "g")
    assert commit_one(coordinator, group_instance_id="anything") == OK
    for generation in (0, 1):
        assert commit_one(coordinator, member_id="m", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID


# --- members ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (State.PREPARING_REBALANCE, OK),
        (State.COMPLETING_REBALANCE, ErrorCode.REBALANCE_IN_PROGRESS),
        (State.STABLE, OK),
    ],
)
def test_each_state_returns_its_error_code_to_members(coordinator, state, code):
    live_group(coordinator, "g", state)
    assert commit_one(coordinator, member_id=MEMBER, generation=GENERATION) == code


WHO = [
    ({}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"generation": GENERATION}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": MEMBER}, ErrorCode.ILLEGAL_GENERATION),
    ({"member_id": MEMBER, "generation": GENERATION - 1}, ErrorCode.ILLEGAL_GENERATION),
    ({"member_id": MEMBER, "generation": GENERATION + 1}, ErrorCode.ILLEGAL_GENERATION),
    ({"member_id": "other", "generation": GENERATION}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": MEMBER, "generation": GENERATION, "group_instance_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ({"member_id": MEMBER, "generation": GENERATION, "group_instance_id": INSTANCE}, ErrorCode.FENCED_INSTANCE_ID),
    ({"member_id": STATIC, "generation": GENERATION, "group_instance_id": INSTANCE}, OK),
    ({"member_id": STATIC, "generation": GENERATION}, OK),
    ({"group_instance_id": INSTANCE}, ErrorCode.FENCED_INSTANCE_ID),
]


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(("who", "code"), WHO)
def test_a_group_with_members_fences_commits(coordinator, version, who, code):
    live_group(coordinator, "g")
    assert commit_one(coordinator, version=version, **who) == code


def test_earlier_releases_ignore_an_instance_id_that_the_group_does_not_have(coordinator):
    coordinator.behaviours = Behaviours(unknown_instance_is_ignored=True)
    live_group(coordinator, "g")
    for member_id, code in ((MEMBER, OK), ("other", ErrorCode.UNKNOWN_MEMBER_ID)):
        who = {"member_id": member_id, "generation": GENERATION, "group_instance_id": "other"}
        assert commit_one(coordinator, **who) == code


def test_a_refused_commit_changes_nothing(coordinator):
    live_group(coordinator, "g")
    before = list(coordinator.log)
    commit_one(coordinator, member_id=MEMBER, generation=GENERATION - 1)
    assert coordinator.log == before
    assert coordinator.state.offsets.count == 0
    assert coordinator.shards[0].timers.get(session_key("g", MEMBER)) is None


@pytest.mark.parametrize("state", [State.STABLE, State.PREPARING_REBALANCE])
def test_a_members_commit_keeps_its_session(coordinator, state):
    live_group(coordinator, "g", state)
    commit_one(coordinator, member_id=MEMBER, generation=GENERATION)
    assert coordinator.shards[0].timers[session_key("g", MEMBER)] == coordinator.now_ms + SESSION_MS


# --- topics -----------------------------------------------------------------------------------------------------------


def test_unknown_partitions_are_first_in_the_response(coordinator):
    coordinator.topics.add("other", 1)
    answer = coordinator.commit(
        "g", {P0: 1, ("topic", 99): 1, ("nowhere", 0): 1, P1: 1, ("other", 0): 1, ("topic", -1): 1}
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list(answer.items()) == [
        (("topic", 99), unknown),
        (("topic", -1), unknown),
        (P0, OK),
        (P1, OK),
        (("nowhere", 0), unknown),
        (("other", 0), OK),
    ]
    assert coordinator.fetch("g") == {("other", 0): 1, P0: 1, P1: 1}


def test_topics_are_checked_before_the_group(coordinator):
    live_group(coordinator, "g")
    answer = coordinator.commit("g", {("nowhere", 0): 1}, member_id="nobody", generation=99)
    assert answer == {("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_error_of_the_group_is_returned_for_the_existing_partitions(coordinator):
    live_group(coordinator, "g")
    answer = coordinator.commit("g", {P0: 1, ("topic", 99): 1}, member_id="nobody", generation=99)
    assert answer == {("topic", 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, P0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_an_error_of_the_shard_is_returned_for_the_existing_partitions(coordinator):
    coordinator.refusing = ErrorCode.NOT_COORDINATOR
    assert coordinator.commit("g", {P0: 1}) == {P0: ErrorCode.NOT_COORDINATOR}
    answer = coordinator.commit("g", {P0: 1, ("topic", 99): 1})
    assert answer == {("topic", 99): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, P0: ErrorCode.NOT_COORDINATOR}


def test_a_request_without_topics_succeeds_without_a_check_of_the_group(coordinator):
    assert coordinator.ask("OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=9, topics=[]).topics == []


def test_a_topic_named_twice_is_answered_twice_unless_something_was_refused(coordinator):
    twice = [Topic("topic", partitions=[Partition(0, 1)]), Topic("topic", partitions=[Partition(1, 1)])]
    answer = coordinator.ask("OffsetCommit", 8, group_id="g", topics=twice)
    assert [len(topic.partitions) for topic in answer.topics] == [1, 1]
    unknown = Topic("nowhere", partitions=[Partition(0, 1)])
    answer = coordinator.ask("OffsetCommit", 8, group_id="g", topics=[*twice, unknown])
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("nowhere", 1), ("topic", 2)]


def test_a_topic_without_partitions_is_answered_only_if_it_does_not_exist(coordinator):
    bare = [Topic("topic", partitions=[]), Topic("nowhere", partitions=[])]
    answer = coordinator.ask("OffsetCommit", 8, group_id="g", topics=bare)
    assert [topic.name for topic in answer.topics] == ["nowhere"]


def test_v10_names_topics_by_id(coordinator):
    known = coordinator.topics.topic_id("topic")
    unknown, zero = b"u" * 16, bytes(16)
    answer = coordinator.ask(
        "OffsetCommit",
        10,
        group_id="g",
        topics=[Topic(topic_id=each, partitions=[Partition(0, 3)]) for each in (known, unknown, zero)],
    )
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.topics] == [
        (unknown, ErrorCode.UNKNOWN_TOPIC_ID),
        (zero, ErrorCode.UNKNOWN_TOPIC_ID),
        (known, OK),
    ]
    assert coordinator.fetch("g") == {P0: 3}


def test_v10_distinguishes_unknown_partitions_from_unknown_topics(coordinator):
    known = coordinator.topics.topic_id("topic")
    answer = coordinator.ask(
        "OffsetCommit", 10, group_id="g", topics=[Topic(topic_id=known, partitions=[Partition(9, 3), Partition(1, 3)])]
    )
    (topic,) = answer.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, OK),
    ]


@pytest.mark.parametrize("version", range(2, 11))
def test_every_version_is_supported(coordinator, version):
    topic_id = coordinator.topics.topic_id("topic")
    named = {"topic_id": topic_id} if version >= 10 else {"name": "topic"}
    answer = coordinator.ask(
        "OffsetCommit", version, group_id="g", topics=[Topic(**named, partitions=[Partition(0, 9)])]
    )
    assert [each.error_code for topic in answer.topics for each in topic.partitions] == [OK]
    assert coordinator.state.offsets.get("g", "topic", 0).topic_id == topic_id


# --- what is stored ---------------------------------------------------------------------------------------------------


def test_the_record_is_version_4_with_the_topics_id_and_no_group_record_is_written(coordinator):
    commit_one(coordinator)
    (record,) = coordinator.records()
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "topic", 0)
    assert record.value_version == 4
    assert record.value.offset == 7
    assert record.value.commit_timestamp == coordinator.now_ms
    assert record.value.topic_id == coordinator.topics.topic_id("topic")


def test_a_commit_with_its_own_retention_is_written_in_version_1(coordinator):
    commit_one(coordinator, version=2, retention_time_ms=60_000)
    (record,) = coordinator.records()
    assert (record.value_version, record.value.expire_timestamp) == (1, coordinator.now_ms + 60_000)
    before = coordinator.state.offsets.by_group
    coordinator.restart()
    assert coordinator.state.offsets.by_group == before


def test_the_leader_epoch_is_kept(coordinator):
    coordinator.ask("OffsetCommit", 8, group_id="g", topics=[Topic("topic", partitions=[Partition(0, 9, 42)])])
    answer = coordinator.ask("OffsetFetch", 7, group_id="g", topics=None)
    assert answer.topics[0].partitions[0].committed_leader_epoch == 42


def test_negative_offsets_are_accepted(coordinator):
    assert coordinator.commit("g", {P0: -1, P1: -5}) == {P0: OK, P1: OK}
    assert coordinator.fetch("g") == {P0: -1, P1: -5}


def test_null_metadata_is_stored_as_empty(coordinator):
    coordinator.commit("g", {P0: 1}, metadata=None)
    assert coordinator.state.offsets.get("g", "topic", 0).metadata == ""


@pytest.mark.parametrize(
    ("metadata", "accepted"),
    [
        ("a" * 4096, True),
        ("a" * 4097, False),
        ("é" * 4096, True),
        ("😀" * 2048, True),
        ("😀" * 2048 + "a", False),
        ("😀" * 2049, False),
    ],
    ids=["4096 a", "4097 a", "4096 two-byte letters", "2048 surrogate pairs", "one more", "2049 surrogate pairs"],
)
def test_metadata_is_measured_in_utf16_units(coordinator, metadata, accepted):
    code = coordinator.commit("g", {P0: 1}, metadata=metadata)[P0]
    assert code == (OK if accepted else ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert coordinator.fetch("g") == ({P0: 1} if accepted else {})


def test_too_long_metadata_fails_only_its_partition(coordinator):
    large, small = Partition(0, 1, -1, "a" * 4097), Partition(1, 1, -1, "a")
    answer = coordinator.ask("OffsetCommit", 8, group_id="g", topics=[Topic("topic", partitions=[large, small])])
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [ErrorCode.OFFSET_METADATA_TOO_LARGE, OK]
    assert coordinator.fetch("g") == {P1: 1}
