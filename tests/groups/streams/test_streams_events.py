"""The events of streams groups."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.streams.streams_world import DELAY_MS, INTERVAL_MS, SESSION_MS, StreamsHarness, Thread, settle

STREAMS = 2


@pytest.fixture
def h():
    return StreamsHarness()


def _of(h, kind, *fields):
    return [tuple(getattr(value, field) for field in fields) for value in h.events_of(kind)]


def test_members_that_join_and_leave_are_emitted(h):
    h.arrive("a", instance="i", process="p")
    h.beat("a", -2, instance="i")
    h.arrive("b", instance="i", process="p")
    h.beat("b", -1, instance="i")
    assert _of(h, "MemberJoined", "group_kind", "member_id", "group_instance_id", "epoch") == [
        (STREAMS, "a", "i", 2),
        (STREAMS, "b", "i", 2),
    ]
    assert _of(h, "MemberLeft", "group_kind", "member_id", "epoch") == [(STREAMS, "a", -2), (STREAMS, "b", 2)]


def test_members_that_time_out_are_emitted(h):
    h.arrive()
    h.advance(SESSION_MS)
    assert _of(h, "MemberExpired", "group_kind", "member_id", "epoch", "timeout") == [(STREAMS, "m", 2, "session")]


def test_fenced_members_are_emitted(h):
    h.arrive()
    h.beat("m", 5)
    assert _of(h, "MemberFenced", "group_kind", "member_id", "epoch", "error_code", "api") == [
        (STREAMS, "m", 5, ErrorCode.FENCED_MEMBER_EPOCH, "StreamsGroupHeartbeat")
    ]


def test_a_rebalance_begins_and_ends_when_the_last_member_has_reached_the_target(h):
    a, b = Thread(h, "a"), Thread(h, "b")
    a.beat()
    settle(h, [a, b], 6)
    assert _of(h, "RebalanceStarted", "group_kind", "epoch", "cause", "member_id") == [
        (STREAMS, 2, "a member joined", "a"),
        (STREAMS, 3, "a member joined", "b"),
    ]
    ended = h.events_of("RebalanceCompleted")
    assert [(each.epoch, each.members, each.member_id) for each in ended] == [(2, 1, "a"), (3, 2, "b")]
    assert {each.member_id for each in ended[1].waited_for} == {"a", "b"}


def test_assignments_are_emitted_when_delivered_and_when_acknowledged(h):
    a, b = Thread(h, "a"), Thread(h, "b")
    a.beat()
    settle(h, [a, b], 6)

    def read(value):
        return [(each.topic_name, sorted(each.partitions)) for each in value.topics]

    delivered = [(each.member_id, each.epoch, read(each)) for each in h.events_of("AssignmentDelivered")]
    acknowledged = [(each.member_id, each.epoch, read(each)) for each in h.events_of("AssignmentAcknowledged")]
    everything, rest = [("t", [0, 1, 2, 3])], [("t", sorted(number for _, number in a.active))]
    assert delivered[0] == ("a", 2, everything)
    assert ("a", 2, rest) in delivered
    assert acknowledged[0] == ("a", 2, everything)
    assert ("b", 3, [("t", sorted(number for _, number in b.active))]) in acknowledged


def test_the_cause_of_a_rebalance_is_emitted(h):
    h.arrive()
    h.advance(INTERVAL_MS)
    h.catalog.topics["t"] = 5
    h.beat("m", 2)
    h.beat("m", 3, tags={"zone": "z"})
    h.beat("m", -1)
    assert [each.cause for each in h.events_of("RebalanceStarted")] == [
        "a member joined",
        "a topic of the topology changed",
        "a member changed",
        "a member left",
    ]


def test_a_new_group_keeps_the_cause_of_its_first_rebalance():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=DELAY_MS)
    h.arrive()
    h.advance(DELAY_MS)
    (rebalance,) = h.streams().soft.rebalances
    assert (rebalance.cause, rebalance.assigned_ms - rebalance.started_ms) == ("a member joined", DELAY_MS)


def test_the_replacement_of_a_classic_group_is_emitted(h):
    (member_id,) = h.stable(members=1)
    h.leave("g", member_id)
    h.arrive()
    h.beat("m", -1)
    h.stable(members=1)
    assert _of(h, "GroupConverted", "from_kind", "to_kind", "members") == [(0, STREAMS, 0), (STREAMS, 0, 0)]
