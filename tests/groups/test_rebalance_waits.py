"""Whom a rebalance waited for: event, view and log line name the same members, however these stopped being waited for."""

import pytest

from coordinator.groups.classic.describe import details
from coordinator.groups.epochs.describe import progress_view
from tests.groups.consumer.consumer_world import INTERVAL_MS, ConsumerHarness, Modern, settle
from tests.groups.harness import GroupHarness

PATIENT = {"session_ms": 10_000, "rebalance_ms": 60_000}


def waits(event):
    return {each.member_id: each.waited_ms for each in event.waited_for}


def stable(h, members=3, **options):
    """Three members in generation 1; the first leads."""
    return h.stable(members=members, **PATIENT | options)


def call_to_rejoin(h, *members):
    """Begins a rebalance: these members join, the others are waited for."""
    for member_id in members:
        h.join("g", member_id, **PATIENT)


def completed(h):
    """The event of the last rebalance; its culprit must be the same in the view and in the log line."""
    event = h.events_of("RebalanceCompleted")[-1]
    shown = details(h.groups, h.group())["rebalances"][-1]
    longest = {member_id: waited for member_id, waited in waits(event).items() if waited}
    assert {each["member_id"]: each["waited_ms"] for each in shown["waited_for"]} == longest
    assert shown["delay_ms"] == event.delay_ms
    line = h.facts_named("group_stable")[-1]
    assert line["waited_longest_for"] == max(longest, key=longest.__getitem__, default="")
    return event


def test_a_member_whose_session_runs_out_during_the_rebalance_was_waited_for():
    h = GroupHarness()
    leader, other, silent = stable(h)
    call_to_rejoin(h, leader, other)
    h.advance(10_000)
    assert silent not in h.group().members
    h.settle()
    event = completed(h)
    assert waits(event) == {leader: 0, other: 0, silent: 10_000}
    assert event.duration_ms == 10_000
    assert h.facts_named("generation_formed")[-1]["waited_longest_for"] == silent


@pytest.mark.parametrize("ids", ["member id", "instance id"])
def test_a_member_that_leaves_during_the_rebalance_was_waited_for(ids):
    h = GroupHarness()
    leader, other, leaving = stable(h, static=ids == "instance id")
    for index, member_id in enumerate((leader, other)):
        instance = f"i{index}" if ids == "instance id" else None
        h.join("g", member_id, instance=instance, protocols={"range": b"", "new": b""}, **PATIENT)
    h.advance(4_000)
    h.leave("g", ("", "i2") if ids == "instance id" else leaving)
    h.settle()
    assert waits(completed(h)) == {leader: 0, other: 0, leaving: 4_000}


def test_a_static_member_that_does_not_join_was_waited_for_and_stays():
    h = GroupHarness()
    timeouts = {"session_ms": 300_000, "rebalance_ms": 5_000}
    leader, away = h.stable(static=True, **timeouts)
    h.join("g", leader, instance="i0", **timeouts)
    h.advance(5_000)
    assert away in h.group().members
    h.sync("g", leader, 2, {})
    assert waits(completed(h)) == {leader: 0, away: 5_000}


def test_the_holder_of_a_handed_out_id_that_never_joins_was_waited_for():
    h = GroupHarness()
    (leader,) = stable(h, members=1)
    handed_out = h.join("g", **PATIENT).reply.member_id
    call_to_rejoin(h, leader)
    h.advance(10_000)
    assert not h.group().pending_joins
    h.settle()
    assert waits(completed(h)) == {leader: 0, handed_out: 10_000}


def test_the_initial_delay_is_shown_as_itself_and_nobody_is_blamed_for_it():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    first = h.join_new_member()
    h.advance(2_000)
    second = h.join_new_member()
    h.advance(4_000)
    assert h.group().state == "CompletingRebalance"
    h.advance(500)
    h.settle()
    event = completed(h)
    assert (event.duration_ms, event.delay_ms) == (6_500, 6_000)
    assert waits(event) == {first: 500, second: 0}, "half a second for the leader's assignment"


def test_a_rebalance_that_another_overtakes_has_its_own_event():
    h = GroupHarness()
    leader, slow, _ = members = stable(h)
    call_to_rejoin(h, leader, members[2])
    h.advance(7_000)
    h.heartbeat("g", slow, 1)
    call_to_rejoin(h, slow)
    h.advance(300)
    newcomer = h.join_new_member(**PATIENT)
    (overtaken,) = h.events_of("RebalanceOvertaken")
    assert (overtaken.epoch, overtaken.cause, overtaken.member_id) == (2, "the leader joins again", leader)
    assert (overtaken.duration_ms, waits(overtaken)) == (7_300, {leader: 300, members[2]: 0, slow: 7_000})
    assert h.events_of("RebalanceStarted")[-1].epoch == 3
    h.advance(100)
    h.settle()
    assert waits(completed(h)) == {newcomer: 0, **dict.fromkeys(members, 100)}


def test_a_leader_that_is_removed_before_it_assigns_was_waited_for():
    h = GroupHarness()
    leader, other = stable(h, members=2)
    call_to_rejoin(h, leader, other)
    h.sync("g", other, 2)
    h.advance(10_000)
    assert leader not in h.group().members
    (overtaken,) = h.events_of("RebalanceOvertaken")
    assert waits(overtaken) == {leader: 10_000, other: 0}
    assert h.events_of("RebalanceStarted")[-1].cause == "a member's session timed out"


# --- groups with epochs -------------------------------------------------------------------------------------------------


def test_a_member_of_a_consumer_group_that_expires_before_it_revokes_was_waited_for():
    h = ConsumerHarness()
    stuck, newcomer = Modern(h, "stuck"), Modern(h, "newcomer")
    settle(h, [stuck], 3)
    newcomer.beat()
    for _ in range(60):
        h.advance(INTERVAL_MS)
        newcomer.beat()
    assert "stuck" not in h.consumer().members
    first = h.events_of("RebalanceCompleted")[1]
    assert (first.epoch, first.cause, first.member_id) == (3, "a member joined", "newcomer")
    assert waits(first)["stuck"] > 40_000
    shown = progress_view(h.consumer())["rebalances"][1]
    assert {"member_id": "stuck", "waited_ms": waits(first)["stuck"]} in shown["waited_for"]
    (overtaking,) = h.events_of("RebalanceCompleted")[2:]
    ended = h.facts_named("rebalance_ended")[-1]
    assert (ended["epoch"], ended["waited_ms"]) == (4, first.duration_ms)
    assert overtaking.duration_ms < first.duration_ms, "both ended at once, and the line is about the first"


def test_the_assignment_interval_is_shown_as_itself():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=5_000)
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a], 3)
    settle(h, [a, b], 10)
    event = h.events_of("RebalanceCompleted")[-1]
    assert 0 < event.delay_ms <= 5_000
    assert max(waits(event).values()) == event.duration_ms - event.delay_ms
    assert h.facts_named("rebalance_ended")[-1]["delay_ms"] == event.delay_ms
