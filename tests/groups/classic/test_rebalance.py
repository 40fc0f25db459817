"""How long a rebalance waits, and for which members."""

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

CHANGED = {"range": subscription(["other"])}


def test_the_first_join_waits_for_the_initial_rebalance_delay():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    first = h.join(version=3)
    h.advance(2_999)
    assert first.is_parked
    h.advance(1)
    assert first.ok


def test_new_members_extend_the_initial_delay_up_to_the_rebalance_timeout():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    requests = [h.join(version=3, rebalance_ms=10_000)]
    for _ in range(9):
        h.advance(1_000)
        requests.append(h.join(version=3, rebalance_ms=10_000))
    h.advance(999)
    assert all(each.is_parked for each in requests)
    h.advance(1)
    assert all(each.ok and each.reply.generation_id == 1 for each in requests)


def test_the_initial_delay_ends_when_no_more_members_join():
    h = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    first = h.join(version=3)
    h.advance(1_000)
    second = h.join(version=3)
    h.advance(2_000)
    assert first.is_parked
    h.advance(3_000)
    assert first.ok
    assert second.ok


def test_a_rebalance_ends_once_every_member_has_joined():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=follower, protocols=CHANGED)
    h.advance(20_000)
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.join(member_id=leader).ok


def test_a_rebalance_waits_for_a_pending_member():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    newcomer = h.join().reply.member_id
    request = h.join(member_id=follower)
    assert request.is_parked
    h.join(member_id=newcomer)
    assert request.ok


def test_members_that_miss_the_longest_rebalance_timeout_are_removed():
    h = GroupHarness()
    leader = h.join_new_member(rebalance_ms=5_000, session_ms=300_000)
    follower = h.join_new_member(rebalance_ms=40_000, session_ms=300_000)
    h.advance(0)
    h.settle()
    request = h.join(member_id=follower, protocols=CHANGED, rebalance_ms=5_000)
    h.join(member_id=follower, protocols=CHANGED, rebalance_ms=40_000)
    h.advance(4_999)
    assert h.group().state == "PreparingRebalance"
    h.advance(1)
    assert request.reply is not None
    assert list(h.group().members) == [follower]
    assert h.group().leader_id == follower
    assert h.heartbeat("g", leader, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.facts_named("generation_formed")[-1]["given_up_members"] == (leader,)


def test_static_members_that_miss_the_rebalance_timeout_keep_their_membership():
    h = GroupHarness()
    one, two = h.stable(static=True, rebalance_ms=5_000, session_ms=20_000)
    h.join(member_id=two, instance="i1", protocols=CHANGED, rebalance_ms=5_000)
    h.advance(5_000)
    assert set(h.group().members) == {one, two}
    assert h.group().leader_id == two


def test_a_rebalance_that_no_member_joined_is_postponed():
    h = GroupHarness()
    one, two = h.stable(static=True, rebalance_ms=5_000, session_ms=300_000)
    assert h.leave("g", ("", "i0")).ok
    h.advance(5_000)
    assert h.group().state == "PreparingRebalance"
    assert h.facts_named("generation_postponed")
    request = h.join(member_id=two, instance="i1")
    assert request.ok
    assert one not in h.group().members


def test_the_leader_stays_the_leader_only_if_it_rejoins():
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


def test_a_new_member_in_completing_rebalance_starts_another_rebalance():
    h = GroupHarness()
    leader, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    parked = h.sync("g", follower, 1)
    newcomer = h.join_new_member()
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.sync("g", leader, 1, {leader: b"late"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert h.group().state == "PreparingRebalance"
    assert newcomer in h.group().members


def test_a_rebalance_emits_its_cause_the_member_it_waited_for_and_its_duration():
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
    assert started["reason"] == "cooperative follow-up"
    assert (formed["waited_ms"], formed["waited_longest_for"]) == (1_500, leader)
    assert (stable["took_ms"], stable["left_out"]) == (2_000, 2)
    rebalance = h.group().rebalances[-1]
    assert (rebalance.ended_ms - rebalance.started_ms, rebalance.completed) == (2_000, True)


def test_a_group_keeps_a_bounded_number_of_rebalances():
    h = GroupHarness()
    leader, _ = h.stable()
    for _ in range(50):
        h.join(member_id=leader)
        h.settle()
    assert len(h.group().rebalances) == 16
