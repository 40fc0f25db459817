"""TxnOffsetCommit: who may commit, how the transaction is verified, and what is pending afterwards."""

import pytest

from coordinator.groups.classic.states import State
from coordinator.groups.fencing import MEMBER as MEMBER_CHECKED
from coordinator.groups.fencing import NAMES_NO_MEMBER, NO_MEMBER, OLD_VERSION
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.releases import Behaviours
from coordinator.runtime.result import Producer
from tests.groups.offsets.group_states import GENERATION, INSTANCE, MEMBER, STATIC, emptied_group, live_group
from tests.groups.offsets.offset_coordinator import OffsetCoordinator

P0 = ("topic", 0)
P1 = ("topic", 1)
OK = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
NOBODY: dict = {}
RIGHT = {"member_id": MEMBER, "generation_id_or_member_epoch": GENERATION}


@pytest.fixture
def coordinator() -> OffsetCoordinator:
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 4)
    return coordinator


# --- pending, and no longer -------------------------------------------------------------------------------------------


def test_a_pending_offset_is_seen_once_its_marker_commits(coordinator):
    coordinator.commit("g", {P1: 5})
    assert coordinator.stage("g", {P0: 1, P1: 2}) == {P0: OK, P1: OK}
    assert coordinator.fetch("g") == {P1: 5}
    assert coordinator.fetch("g", [P0, P1, ("topic", 2)], stable=True) == {P0: UNSTABLE, P1: UNSTABLE, ("topic", 2): -1}
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g", [P0, P1], stable=True) == {P0: 1, P1: 2}


def test_an_aborted_offset_is_never_seen(coordinator):
    coordinator.commit("g", {P1: 5})
    coordinator.stage("g", {P0: 1, P1: 2})
    coordinator.end("g", commits=False)
    assert coordinator.fetch("g", [P0, P1], stable=True) == {P0: -1, P1: 5}
    coordinator.restart()
    assert coordinator.fetch("g", [P0, P1], stable=True) == {P0: -1, P1: 5}


def test_a_marker_ends_its_own_producers_transaction_in_all_groups_and_no_other(coordinator):
    coordinator.stage("g", {P0: 1})
    coordinator.stage("h", {P0: 2})
    coordinator.stage("g", {P1: 3}, producer=Producer(8, 0))
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g", [P0, P1], stable=True) == {P0: 1, P1: UNSTABLE}
    assert coordinator.fetch("h", [P0], stable=True) == {P0: 2}


def test_a_marker_without_an_open_transaction_has_no_effect(coordinator):
    coordinator.end("g", commits=True, producer=Producer(99, 3))
    coordinator.stage("g", {P0: 1})
    coordinator.end("g", commits=True)
    coordinator.commit("g", {P0: 2})
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g") == {P0: 2}
    assert coordinator.state.offsets.pending.by_producer == {}
    assert coordinator.state.offsets.pending.by_group == {}


def test_the_answer_waits_for_nothing_but_the_log_and_the_record_is_kafkas(coordinator):
    coordinator.stage("g", {P0: 1}, metadata=None)
    (record,) = coordinator.records()
    assert (record.key.group, record.key.topic, record.key.partition) == ("g", "topic", 0)
    assert record.value_version == 4
    assert (record.value.offset, record.value.leader_epoch, record.value.metadata) == (1, -1, "")
    assert (record.value.commit_timestamp, record.value.topic_id) == (
        coordinator.now_ms,
        coordinator.topics.topic_id("topic"),
    )


def test_offsets_are_counted_when_they_are_committed(coordinator):
    coordinator.stage("g", {P0: 1, P1: 1})
    assert coordinator.state.offsets.count == 0
    coordinator.end("g", commits=True)
    assert coordinator.state.offsets.count == 2


# --- the producer -----------------------------------------------------------------------------------------------------


def test_an_epoch_older_than_that_of_a_record_or_marker_is_refused(coordinator):
    coordinator.stage("g", {P0: 1}, producer=Producer(7, 3))
    assert coordinator.stage("g", {P0: 2}, producer=Producer(7, 2)) == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    coordinator.end("g", commits=True, producer=Producer(7, 4))
    assert coordinator.stage("g", {P0: 2}, producer=Producer(7, 3)) == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    coordinator.restart()
    assert coordinator.stage("g", {P0: 2}, producer=Producer(7, 3)) == {P0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert coordinator.stage("g", {P0: 2}, producer=Producer(7, 4)) == {P0: OK}


def test_the_group_is_checked_before_the_producer(coordinator):
    coordinator.stage("g", {P0: 1}, producer=Producer(7, 3))
    live_group(coordinator, "g")
    stranger = {"member_id": "stranger", "generation_id_or_member_epoch": GENERATION}
    assert coordinator.stage("g", {P0: 2}, producer=Producer(7, 2), **stranger) == {P0: ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_commit_whose_transaction_ends_during_verification_is_refused(coordinator):
    """The first protocol: the epoch stays the same, so only the order of events distinguishes the two."""
    coordinator.verification.holding = True
    late = coordinator.begin("TxnOffsetCommit", 4, **coordinator.txn_request("g", {P0: 1}))
    coordinator.end("g", commits=True)
    coordinator.verification.answer()
    (answer,) = late.answers
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TXN_STATE
    assert coordinator.state.offsets.pending.by_producer == {}


def test_the_marker_of_the_previous_transaction_may_arrive_during_verification(coordinator):
    """The second protocol: the addition waited for that end, and the epochs distinguish the two."""
    coordinator.stage("g", {P0: 1})
    coordinator.verification.holding = True
    request = coordinator.txn_request("g", {P1: 2}, producer=Producer(7, 1))
    following = coordinator.begin("TxnOffsetCommit", 5, **request)
    coordinator.end("g", commits=True, producer=Producer(7, 1), transaction_version=2)
    coordinator.verification.answer()
    (answer,) = following.answers
    assert answer.topics[0].partitions[0].error_code == OK
    assert coordinator.fetch("g", [P0, P1], stable=True) == {P0: 1, P1: UNSTABLE}


def test_a_marker_of_an_earlier_transaction_does_not_end_the_current_one(coordinator):
    coordinator.end("g", commits=True, producer=Producer(7, 1), transaction_version=2)
    coordinator.stage("g", {P0: 1}, producer=Producer(7, 1))
    for marker in (
        {"producer": Producer(7, 1), "transaction_version": 2},
        {"producer": Producer(7, 0), "transaction_version": 1},
    ):
        with pytest.raises(KafkaError) as refused:
            coordinator.end("g", commits=True, **marker)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert coordinator.fetch("g", [P0], stable=True) == {P0: UNSTABLE}


def test_a_marker_of_a_fenced_transaction_coordinator_is_refused(coordinator):
    coordinator.end("g", commits=True, coordinator_epoch=4)
    coordinator.stage("g", {P0: 1})
    with pytest.raises(KafkaError) as refused:
        coordinator.end("g", commits=True, coordinator_epoch=3)
    assert refused.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    coordinator.end("g", commits=True, coordinator_epoch=5)
    assert coordinator.fetch("g") == {P0: 1}


# --- the transaction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "adds", "abortable"), [(0, False, False), (3, False, False), (4, False, True), (5, True, True)]
)
def test_the_transaction_is_verified_for_the_groups_partition(version, adds, abortable):
    coordinator = OffsetCoordinator(shards=5)
    coordinator.topics.add("topic", 4)
    coordinator.stage("g", {P0: 1}, version)
    index = coordinator.groups.shard_of("g").index
    assert coordinator.verification.asked == [
        ("tx-7", Producer(7, 0), {"__consumer_offsets": [index]}, adds, abortable)
    ]


@pytest.mark.parametrize(
    ("refusal", "version", "expected"),
    [
        (ErrorCode.INVALID_TXN_STATE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NETWORK_EXCEPTION, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_refusals_of_the_transaction_become_errors_that_clients_know(coordinator, refusal, version, expected):
    coordinator.verification.refusing = refusal
    assert coordinator.stage("g", {P0: 1, ("topic", 9): 1}, version) == {
        ("topic", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        P0: expected,
    }
    assert coordinator.log == []


def test_unknown_topics_are_refused_before_group_and_transaction_are_checked(coordinator):
    assert coordinator.stage("", {("nowhere", 0): 1}) == {("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert coordinator.verification.asked == []
    assert coordinator.stage("", {P0: 1}) == {P0: ErrorCode.INVALID_GROUP_ID}
    assert coordinator.verification.asked == []


# --- the group --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.STABLE, State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (RIGHT, OK),
        ({**RIGHT, "generation_id_or_member_epoch": GENERATION - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({**RIGHT, "generation_id_or_member_epoch": GENERATION + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({**RIGHT, "generation_id_or_member_epoch": -1}, ErrorCode.ILLEGAL_GENERATION),
        ({**RIGHT, "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({**RIGHT, "member_id": ""}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({**RIGHT, "group_instance_id": INSTANCE}, ErrorCode.FENCED_INSTANCE_ID),
        ({**RIGHT, "member_id": STATIC, "group_instance_id": INSTANCE}, OK),
        ({**RIGHT, "group_instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
        (NOBODY, OK),
    ],
)
def test_a_classic_group_fences_by_member_and_generation_in_every_state(coordinator, state, who, expected):
    live_group(coordinator, "g", state)
    for version in (3, 5):
        assert coordinator.stage("g", {P0: 1}, version, **who) == {P0: expected}


def test_commits_are_counted_by_whether_the_member_could_be_checked(coordinator):
    live_group(coordinator, "g")
    for version, who in [(0, NOBODY), (2, NOBODY), (3, NOBODY), (5, RIGHT), (5, {**RIGHT, "member_id": "stranger"})]:
        coordinator.stage("g", {P0: 1}, version, **who)
    assert coordinator.state.counters.txn_requests == {OLD_VERSION: 2, NO_MEMBER: 1, MEMBER_CHECKED: 2}
    assert coordinator.state.counters.fenced == {}


@pytest.mark.parametrize("has_members", [True, False])
def test_a_setting_refuses_commits_that_name_no_member(has_members):
    coordinator = OffsetCoordinator(fencing_require_member=True)
    coordinator.topics.add("topic", 4)
    if has_members:
        live_group(coordinator, "g")
        assert coordinator.stage("g", {P0: 1}, **RIGHT) == {P0: OK}
    for version in (2, 5):
        assert coordinator.stage("g", {P0: 1}, version) == {P0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert coordinator.state.counters.fenced == {NAMES_NO_MEMBER: 2}


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (NOBODY, OK),
        (RIGHT, OK),
        ({"member_id": MEMBER}, OK),
        ({"generation_id_or_member_epoch": GENERATION}, OK),
        ({"generation_id_or_member_epoch": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({**RIGHT, "generation_id_or_member_epoch": GENERATION + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({**RIGHT, "member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({**RIGHT, "group_instance_id": "unknown"}, OK),
        ({**RIGHT, "group_instance_id": INSTANCE}, ErrorCode.FENCED_INSTANCE_ID),
        ({"group_instance_id": INSTANCE}, ErrorCode.FENCED_INSTANCE_ID),
        ({**RIGHT, "member_id": STATIC, "group_instance_id": INSTANCE}, OK),
    ],
)
def test_kafka_up_to_2_8_checks_each_field_that_a_commit_sets_on_its_own(coordinator, who, expected):
    coordinator.behaviours = Behaviours(txn_commit_is_fenced_by_what_it_names=True)
    live_group(coordinator, "g")
    assert coordinator.stage("g", {P0: 1}, **who) == {P0: expected}


def test_a_group_that_does_not_exist_had_generation_0_up_to_kafka_2_8():
    coordinator = OffsetCoordinator(limit_groups=1)
    coordinator.behaviours = Behaviours(txn_commit_is_fenced_by_what_it_names=True)
    coordinator.topics.add("topic", 4)
    for generation, expected in ((1, ErrorCode.ILLEGAL_GENERATION), (0, OK), (-1, OK)):
        assert coordinator.stage("g", {P0: 1}, generation_id_or_member_epoch=generation) == {P0: expected}
    assert coordinator.stage("g", {P0: 1}, member_id="m") == {P0: ErrorCode.UNKNOWN_MEMBER_ID}
    coordinator.end("g", commits=True)
    assert coordinator.stage("h", {P0: 1}) == {P0: ErrorCode.GROUP_MAX_SIZE_REACHED}


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        (NOBODY, OK),
        ({"member_id": "m"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("is_there", [False, True])
def test_kafka_3_0_to_3_2_take_no_commit_of_a_member_without_a_generation(coordinator, who, expected, is_there):
    """Also outside of transactions."""
    coordinator.behaviours = Behaviours(commit_without_generation_names_no_member=True)
    if is_there:
        emptied_group(coordinator, "g")
    assert coordinator.stage("g", {P0: 1}, **who) == {P0: expected}
    assert coordinator.commit("g", {P0: 1}, **who) == {P0: expected}
    with_generation = {**who, "member_id": "m", "generation_id_or_member_epoch": 0}
    unknown = ErrorCode.UNKNOWN_MEMBER_ID if is_there or who is NOBODY else ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.stage("g", {P1: 1}, 6, **with_generation) == {P1: unknown}


@pytest.mark.parametrize(
    ("behaviours", "version", "expected"),
    [
        (Behaviours(), 5, ErrorCode.ILLEGAL_GENERATION),
        (Behaviours(), 6, ErrorCode.GROUP_ID_NOT_FOUND),
        (Behaviours(txn_commit_to_no_group_is_unknown=True), 5, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_member_of_a_group_that_does_not_exist_is_refused_in_the_words_of_its_release(
    coordinator, behaviours, version, expected
):
    coordinator.behaviours = behaviours
    for generation in (0, GENERATION):
        who = {**RIGHT, "generation_id_or_member_epoch": generation}
        assert coordinator.stage("g", {P0: 1}, version, **who) == {P0: expected}
    assert coordinator.log == []


# --- expiration of producers ------------------------------------------------------------------------------------------


def test_a_producer_expires_a_day_after_its_last_transaction(coordinator):
    coordinator.stage("g", {P0: 1}, producer=Producer(7, 3))
    coordinator.stage("g", {P1: 1}, producer=Producer(8, 3))
    coordinator.end("g", commits=True, producer=Producer(8, 3))
    coordinator.pass_time(25 * 3_600_000)
    assert set(coordinator.state.offsets.pending.known) == {7}
    coordinator.end("g", commits=True, producer=Producer(7, 3))
    coordinator.pass_time(23 * 3_600_000)
    assert set(coordinator.state.offsets.pending.known) == {7}
    coordinator.pass_time(2 * 3_600_000)
    assert coordinator.state.offsets.pending.known == {}


# --- events -----------------------------------------------------------------------------------------------------------


def test_every_decision_has_an_event_with_its_producer():
    coordinator = OffsetCoordinator(coordinator_events="all")
    coordinator.topics.add("topic", 4)
    live_group(coordinator, "g")
    coordinator.stage("g", {P0: 1}, **RIGHT)
    coordinator.stage("g", {P0: 2}, **{**RIGHT, "member_id": "stranger"})
    coordinator.stage("g", {("topic", 9): 3}, **RIGHT)
    coordinator.stage("g", {P0: 4}, producer=Producer(7, -1), **RIGHT)
    coordinator.verification.refusing = ErrorCode.INVALID_TXN_STATE
    coordinator.stage("g", {P0: 5, ("topic", 9): 5}, **RIGHT)
    values = [event.value for event in coordinator.shards[0].events]
    assert [(value.transactional_id, value.producer_id, value.member_id) for value in values] == [
        ("tx-7", 7, MEMBER), ("tx-7", 7, "stranger"), ("tx-7", 7, MEMBER), ("tx-7", 7, MEMBER), ("tx-7", 7, MEMBER),
    ]  # fmt: skip
    assert [value.error_code for value in values] == [
        OK, ErrorCode.UNKNOWN_MEMBER_ID, OK, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE,
    ]  # fmt: skip
    assert [
        [
            (each.partition, each.committed_offset, each.error_code)
            for topic in value.topics
            for each in topic.partitions
        ]
        for value in values
    ] == [
        [(0, 1, OK)],
        [(0, 2, ErrorCode.UNKNOWN_MEMBER_ID)],
        [(9, 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
        [(0, 4, ErrorCode.INVALID_PRODUCER_EPOCH)],
        [(0, 5, ErrorCode.INVALID_TXN_STATE), (9, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
    ]
