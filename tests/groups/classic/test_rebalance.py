"""How long a group waits for its members, and for whom."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

CHANGED = {"range": subscription(["other"])}


def test_an_empty_group_waits_for_more_members():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    first = h.join(version=3)
    h.advance(2_999)
    assert first.is_parked
    h.advance(1)
    assert first.ok


def test_the_wait_is_extended_while_new_members_come_but_not_beyond_the_rebalance_timeout():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    asked = [h.join(version=3, rebalance_ms=10_000)]
    for _ in range(9):
        h.advance(1_000)
        asked.append(h.join(version=3, rebalance_ms=10_000))
    h.advance(999)
    assert all(each.is_parked for each in asked)
    h.advance(1)
    assert all(each.ok and each.reply.generation_id == 1 for each in asked)


def test_the_wait_ends_when_nobody_else_comes():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    first = h.join(version=3)
    h.advance(1_000)
    second = h.join(version=3)
    h.advance(2_000)
    assert first.is_parked
    h.advance(3_000)
    assert first.ok
    assert second.ok


def test_a_rebalance_ends_as_soon_as_everybody_has_joined():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=follower, protocols=CHANGED)
    h.advance(20_000)
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.join(member_id=leader).ok


def test_a_rebalance_waits_for_a_member_that_was_only_given_an_id():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    newcomer = h.join().reply.member_id
    asked = h.join(member_id=follower)
    assert asked.is_parked
    h.join(member_id=newcomer)
    assert asked.ok


def test_members_that_do_not_come_within_the_longest_rebalance_timeout_are_given_up():
    h = GroupHarness()
    leader = h.join_new_member(rebalance_ms=5_000, session_ms=300_000)
    follower = h.join_new_member(rebalance_ms=40_000, session_ms=300_000)
    h.advance(0)
    h.settle()
    asked = h.join(member_id=follower, protocols=CHANGED, rebalance_ms=5_000)
    h.join(member_id=follower, protocols=CHANGED, rebalance_ms=40_000)
    h.advance(4_999)
    assert h.group().state == "PreparingRebalance"
    h.advance(1)
    assert asked.reply is not None
    assert list(h.group().members) == [follower]
    assert h.group().leader_id == follower
    assert h.heartbeat("g", leader, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.facts_named("generation_formed")[-1]["given_up_members"] == (leader,)


def test_static_members_that_do_not_come_are_kept_until_their_session_ends():
    h = GroupHarness()
    one, two = h.stable(static=True, rebalance_ms=5_000, session_ms=20_000)
    h.join(member_id=two, instance="i1", protocols=CHANGED, rebalance_ms=5_000)
    h.advance(5_000)
    assert set(h.group().members) == {one, two}
    assert h.group().leader_id == two


def test_if_no_member_came_the_group_waits_once_more():
    h = GroupHarness()
    one, two = h.stable(static=True, rebalance_ms=5_000, session_ms=300_000)
    assert h.leave("g", ("", "i0")).ok
    h.advance(5_000)
    assert h.group().state == "PreparingRebalance"
    assert h.facts_named("generation_postponed")
    asked = h.join(member_id=two, instance="i1")
    assert asked.ok
    assert one not in h.group().members


def test_the_leader_stays_if_it_joins_and_is_replaced_if_it_does_not():
    h = GroupHarness()
    timeouts = {"rebalance_ms": 5_000, "session_ms": 300_000}
    leader, follower, third = h.stable(members=3, **timeouts)
    for member_id in (third, follower, leader):
        h.join(member_id=member_id, protocols=CHANGED, **timeouts)
    assert h.group().leader_id == leader
    h.settle()
    h.join(member_id=third, **timeouts)
    h.join(member_id=follower, **timeouts)
    h.advance(5_000)
    assert h.group().leader_id in (follower, third)
    assert leader not in h.group().members


def test_a_member_that_joins_during_completing_sends_the_others_back():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    parked = h.sync("g", follower, 1)
    newcomer = h.join_new_member()
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.sync("g", leader, 1, {leader: b"late"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.group().state == "PreparingRebalance"
    assert newcomer in h.group().members


def test_a_rebalance_tells_why_for_whom_and_how_long():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=follower, protocols=CHANGED, reason="cooperative follow-up")
    h.advance(1_500)
    h.join(member_id=leader)
    h.advance(500)
    h.sync("g", leader, 2, {})
    started, formed, stable = (
        h.facts_named("rebalance_started")[-1],
        h.facts_named("generation_formed")[-1],
        h.facts_named("group_stable")[-1],
    )
    assert (started["cause"], started["member_id"]) == ("a member's metadata changed", follower)
    assert started["client_reason"] == "cooperative follow-up"
    assert (formed["waited_ms"], formed["last_joined"]) == (1_500, leader)
    assert (stable["took_ms"], stable["left_out"]) == (2_000, 2)
    rebalance = h.group().rebalances[-1]
    assert (rebalance.ended_ms - rebalance.started_ms, rebalance.completed) == (2_000, True)


def test_a_group_remembers_a_bounded_number_of_rebalances():
    h = GroupHarness()
    leader, _ = h.stable()
    for _ in range(50):
        h.join(member_id=leader)
        h.settle()
    assert len(h.group().rebalances) == 16
