"""Static members: a process that restarts with its instance id gets its place back without a rebalance (KIP-345)."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

CHANGED = {"range": subscription(["other"])}


def static_pair(h, **options):
    """Makes a Stable group of a leader (instance i0) and a follower (i1)."""
    return h.stable(static=True, **options)


def test_a_static_follower_rejoins_without_a_rebalance():
    h = GroupHarness()
    leader, old = static_pair(h)
    reply = h.join(instance="i1").reply
    assert (reply.error_code, reply.generation_id, reply.leader, reply.members) == (0, 1, leader, [])
    assert not reply.skip_assignment
    assert reply.member_id not in (leader, old)
    assert h.sync("g", reply.member_id, 1, instance="i1").reply.assignment == b"A1"
    assert h.heartbeat("g", leader, 1).ok


def test_changed_metadata_needs_no_rebalance_while_the_chosen_protocol_stays():
    h = GroupHarness()
    static_pair(h)
    request = h.join(instance="i1", protocols=CHANGED)
    assert request.ok
    assert request.reply.generation_id == 1


def test_the_replacement_of_a_member_id_survives_a_crash():
    h = GroupHarness()
    leader, old = static_pair(h)
    new = h.join(instance="i1").reply.member_id
    h.restart()
    assert set(h.group().members) == {leader, new}
    assert h.heartbeat("g", old, 1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat("g", new, 1, instance="i1").ok
    assert h.sync("g", new, 1).reply.assignment == b"A1"


def test_a_rejoin_that_changes_the_chosen_protocol_starts_a_rebalance():
    h = GroupHarness()
    both = {"range": b"r", "sticky": b"s"}
    static_pair(h, protocols=both)
    request = h.join(instance="i1", protocols={"sticky": b"s"})
    assert request.is_parked
    assert h.group().state == "PreparingRebalance"
    assert h.join(member_id=h.group().leader_id, protocols=both).reply.protocol_name == "sticky"
    assert request.ok


def test_since_v9_a_rejoining_leader_receives_the_members_and_skips_the_assignment():
    h = GroupHarness()
    _, follower = static_pair(h)
    reply = h.join(instance="i0").reply
    assert (reply.skip_assignment, reply.leader, reply.generation_id) == (True, reply.member_id, 1)
    assert {member.member_id for member in reply.members} == {follower, reply.member_id}
    assert h.sync("g", reply.member_id, 1, {reply.member_id: b"NEW"}).reply.assignment == b"A0"


@pytest.mark.parametrize("version", range(5, 9))
def test_before_v9_a_rejoining_leader_receives_its_old_id_as_the_leader(version):
    h = GroupHarness()
    old, _ = static_pair(h)
    reply = h.join(instance="i0", version=version).reply
    assert (reply.error_code, reply.leader, reply.members) == (0, old, [])
    assert reply.member_id != old
    assert h.group().leader_id == reply.member_id
    assert h.join(member_id=reply.member_id, instance="i0", version=version).is_parked, "it is still the leader"


def test_every_request_with_a_replaced_member_id_is_fenced():
    h = GroupHarness()
    _, old = static_pair(h)
    h.join(instance="i1")
    rejected = h.join(member_id=old, instance="i1").reply
    assert (rejected.error_code, rejected.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    assert h.heartbeat("g", old, 1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.sync("g", old, 1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.leave("g", (old, "i1")).reply.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_rejoin_in_completing_rebalance_starts_another_rebalance():
    h = GroupHarness()
    leader, old = h.join_new_member(instance="i0"), h.join_new_member(instance="i1")
    h.advance(0)
    parked = h.sync("g", old, 1, instance="i1")
    request = h.join(instance="i1")
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    assert h.sync("g", leader, 1, {old: b"lost"}).error is ErrorCode.REBALANCE_IN_PROGRESS
    h.join(member_id=leader, instance="i0")
    assert request.reply.generation_id == 2


def test_a_static_rejoin_in_preparing_rebalance_fences_the_parked_join():
    h = GroupHarness()
    leader, old = static_pair(h)
    parked = h.join(member_id=old, instance="i1", protocols=CHANGED)
    request = h.join(instance="i1", protocols=CHANGED)
    assert (parked.error, parked.reply.member_id) == (ErrorCode.FENCED_INSTANCE_ID, old)
    assert request.is_parked
    h.join(member_id=leader, instance="i0")
    assert request.reply.generation_id == 2


def test_an_unknown_member_id_is_fenced_only_for_a_known_instance_id():
    h = GroupHarness()
    static_pair(h)
    assert h.join(member_id="made-up", instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.join(member_id="made-up", instance="new").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_only_the_new_member_id_has_a_session_after_a_replacement():
    h = GroupHarness()
    leader, old = static_pair(h, session_ms=20_000)
    h.advance(15_000)
    new = h.join(instance="i1", session_ms=20_000).reply.member_id
    h.heartbeat("g", leader, 1)
    assert ("classic-session", "g", old) not in h.timers
    h.advance(15_000)
    assert h.group().state == "Stable"
    h.heartbeat("g", leader, 1)
    h.advance(5_000)
    assert new not in h.group().members


def test_a_static_member_that_restarts_within_its_session_causes_no_rebalance():
    h = GroupHarness()
    leader, _ = static_pair(h, session_ms=20_000)
    for _ in range(5):
        h.advance(10_000)
        h.heartbeat("g", leader, 1)
        assert h.join(instance="i1", session_ms=20_000).ok
    assert (h.group().state, h.group().generation) == ("Stable", 1)


def test_a_static_member_that_rejoins_before_its_sync_still_has_to_sync():
    h = GroupHarness()
    leader, follower = (
        h.join_new_member(instance="i0", session_ms=600_000),
        h.join_new_member(instance="i1", session_ms=600_000),
    )
    h.advance(0)
    h.sync("g", leader, 1, {leader: b"L", follower: b"F"}, instance="i0")
    new = h.join(instance="i1", session_ms=600_000).reply.member_id
    assert list(h.group().pending_syncs) == [new]
    assert h.sync("g", new, 1, instance="i1").reply.assignment == b"F"
    h.advance(500_000)
    assert h.group().state == "Stable"


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_a_replaced_member_id_is_still_fenced_after_a_crash_in_the_rebalance(state):
    """Nobody has received a generation with the new id yet; the log has the exchange all the same."""
    h = GroupHarness()
    leader, old, third = static_pair(h, members=3)
    h.join(member_id=leader, instance="i0")
    if state == "CompletingRebalance":
        h.join(member_id=old, instance="i1")
        h.join(member_id=third, instance="i2")
    assert h.group().state == state
    assert h.join(instance="i1").is_parked
    h.restart()
    generation = 2 if state == "CompletingRebalance" else 1
    assert h.group().generation == generation
    assert old not in h.group().members
    assert h.heartbeat("g", old, generation, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat("g", leader, generation, instance="i0").ok
    assert h.group().members[h.group().static_members["i1"]].assignment == b"A1" * (generation == 1)


def test_a_leader_that_is_replaced_in_a_rebalance_leads_under_its_new_id_after_a_crash():
    h = GroupHarness()
    leader, follower, _ = static_pair(h, members=3)
    h.join(member_id=follower, instance="i1", protocols=CHANGED)
    assert h.join(instance="i0").is_parked
    h.restart()
    assert h.group().leader_id == h.group().static_members["i0"] != leader


def test_a_rebalance_from_outside_survives_a_replacement_and_a_crash():
    h = GroupHarness()
    static_pair(h)
    h.call(lambda groups, _request, _context, now_ms: groups.start_rebalance(h.group(), "forced", None, now_ms), None)
    assert h.join(instance="i1").is_parked
    h.restart()
    assert h.group().state == "PreparingRebalance"
