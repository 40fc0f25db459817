"""ShareGroupHeartbeat: epochs, records, and what is asked of the share coordinator are those of Kafka 4.4."""

import pytest

from coordinator.groups.administration import ActOnGroup, ActOnMember, bump_epoch, evict
from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.fencing import fence_commit_in_transaction, origin_of
from coordinator.groups.kinds import Kind
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import TxnOffsetCommitRequest
from tests.groups.harness import SentRequest
from tests.groups.share.share_world import INTERVAL_MS, SESSION_MS, ShareHarness, assigned_in


@pytest.fixture
def h():
    return ShareHarness()


def test_a_member_has_no_partition_before_there_is_a_state(h):
    h.states.is_slow = True
    assert assigned_in(h.arrive()) == {}
    assert h.beat(epoch=2).reply.member_epoch == 2
    h.states.answer()
    request = h.beat(epoch=2)
    assert request.reply.member_epoch == 3
    assert assigned_in(request) == {h.catalog.topic_id("t"): [0, 1, 2, 3]}
    assert h.durable() == h.durable(h.records)


def test_the_records_of_a_join_are_kafkas_and_in_its_order(h):
    h.arrive()
    assert h.kinds() == ["10", "11", "13", "12", "14", "15", "15"]
    count = len(h.records)
    h.beat(epoch=2)
    assert h.kinds(count) == ["11", "13", "12", "14"]
    count = len(h.records)
    h.beat(epoch=-1)
    assert h.kinds(count) == ["-14", "-13", "-10", "11", "12"]


def test_no_producer_commits_offsets_for_a_share_group(h):
    """Nor while it is empty, which a simple consumer's group would be."""
    request = TxnOffsetCommitRequest(group_id="g", transactional_id="p", generation_id_or_member_epoch=-1)
    for epoch in (0, -1):
        h.beat(epoch=epoch, topics=("t",) if epoch == 0 else None)
        with pytest.raises(KafkaError) as refused:
            fence_commit_in_transaction(h.groups, request, SentRequest(None, 5, "", "", ""))
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert origin_of(h.groups, "g", "m") == (Kind.SHARE, None, None)


def test_a_heartbeat_that_says_nothing_writes_nothing(h):
    h.arrive()
    h.settle()
    count, facts = len(h.records), len(h.facts)
    for _ in range(3):
        request = h.beat(epoch=3)
        assert request.ok
        assert assigned_in(request) is None
    assert (len(h.records), len(h.facts)) == (count, facts)


def test_new_partitions_of_a_known_topic_are_read_from_their_start(h):
    topic_id = h.catalog.topic_id("t")
    h.arrive()
    h.settle()
    assert h.states.asked == [("g", 2, {(topic_id, number): -1 for number in range(4)})]
    h.catalog.add("t", 6)
    h.settle()
    assert h.states.asked[1:] == [("g", 4, {(topic_id, 4): 0, (topic_id, 5): 0})]
    assert h.held() == {"t": [0, 1, 2, 3, 4, 5]}


def test_a_share_coordinator_that_does_not_answer_is_asked_again(h):
    h.states.is_slow = True
    h.arrive()
    h.advance(29_000)
    h.beat(epoch=2)
    assert len(h.states.asked) == 1
    h.advance(1_000)
    h.beat(epoch=2)
    assert len(h.states.asked) == 2


def test_a_restart_asks_again_for_what_was_under_way(h):
    h.states.is_slow = True
    h.arrive()
    h.restart()
    h.states.is_slow = False
    h.beat(epoch=2)
    h.settle()
    assert h.held() == {"t": [0, 1, 2, 3]}


def test_states_that_could_not_be_made_are_asked_for_with_the_next_heartbeat(h):
    h.states.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    h.arrive()
    assert not h.group().state_partitions.initializing
    h.states.error = ErrorCode.NONE
    h.beat(epoch=2)
    assert len(h.states.asked) == 2
    h.settle()
    assert h.held() == {"t": [0, 1, 2, 3]}


def test_an_answer_for_a_topic_that_was_deleted_meanwhile_changes_nothing(h):
    h.states.is_slow = True
    h.arrive()
    h.delete_topic("t")
    h.states.answer()
    assert not h.group().state_partitions.initialized
    h.settle()
    assert h.held() == {}


def test_a_deleted_topic_is_forgotten(h):
    h.arrive()
    h.settle()
    h.delete_topic("t")
    h.settle()
    assert h.held() == {}
    assert h.group().state_partitions.partitions == []
    assert h.durable() == h.durable(h.records)


def test_a_partition_is_read_by_several_members(h):
    for member_id in ("a", "b", "c"):
        h.arrive(member_id, ["u"])
    h.settle()
    assert [h.held(member_id) for member_id in ("a", "b", "c")] == [{"u": [0]}] * 3


def test_the_assignment_interval_puts_the_next_target_off():
    h = ShareHarness(group_share_assignment_interval_ms=INTERVAL_MS)
    h.arrive()
    assert h.beat(epoch=2).reply.member_epoch == 2
    assert h.arrive("n").reply.member_epoch == 2
    h.advance(INTERVAL_MS)
    h.settle()
    assert (h.group().group_epoch, h.group().target_epoch) == (4, 4)
    assert sorted(h.held("m")["t"] + h.held("n")["t"]) == [0, 1, 2, 3]


def test_a_member_whose_session_ends_is_removed(h):
    h.arrive("a")
    h.advance(SESSION_MS - 1)
    h.arrive("b")
    h.advance(1)
    assert list(h.group().members) == ["b"]
    assert h.events_of("MemberExpired")[0].member_id == "a"
    assert h.durable() == h.durable(h.records)


def test_an_administrator_evicts_a_member_and_raises_the_epoch(h):
    h.arrive("a")
    h.arrive("b")
    h.settle()
    epoch = h.group().group_epoch
    h.call(evict, ActOnMember("g", "a"))
    h.call(bump_epoch, ActOnGroup("g"))
    h.settle()
    assert h.group().group_epoch == epoch + 2
    assert h.held("b") == {"t": [0, 1, 2, 3]}


def test_a_deleted_group_deletes_the_states_of_its_partitions(h):
    h.arrive()
    h.settle()
    h.beat(epoch=-1)
    count = len(h.records)
    h.call(delete_groups, ["g"])
    assert h.kinds(count) == ["-12", "-15", "-11"]
    assert h.states.deleted == [("g", [(h.catalog.topic_id("t"), number) for number in range(4)])]
    assert h.groups.by_id == {}


def test_a_share_group_without_members_stays_until_it_is_deleted(h):
    h.arrive()
    h.beat(epoch=-1)
    h.advance(30 * 24 * 3_600_000)
    assert "g" in h.groups.by_id


def test_the_log_brings_a_group_back(h):
    h.arrive("a", ["t", "u"])
    h.arrive("b", ["u"])
    h.settle()
    h.beat("b", epoch=-1)
    before = h.durable()
    assert h.durable([*h.records, *h.records]) == before
    h.restart()
    assert h.durable() == before
    h.settle()


def test_what_a_group_holds_is_counted_and_given_back(h):
    for number in range(3):
        h.arrive(f"m{number}", ["t", "u"])
    h.settle()
    h.check_held_bytes()
    for number in range(3):
        h.beat(f"m{number}", epoch=-1)
    h.check_held_bytes()
