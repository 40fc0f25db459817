"""A generation in JoinGroup (ours, tagged field 792): a member that missed something is fenced before its claims can do
harm (KIP-792), and a member that knows where it is can ask for a rebalance (KIP-568)."""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

LOST = {"range": subscription(["t"])}


def owning(*partitions, generation):
    return {"range": subscription(["t"], {"t": partitions}, generation)}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("generation", [0, 1, 3, 99])
def test_another_generation_than_the_groups_is_fenced_and_the_member_keeps_its_id(version, generation):
    h = GroupHarness()
    leader, follower = h.stable()
    h.join(member_id=leader)
    h.join(member_id=follower)
    h.settle()
    reply = h.join(member_id=follower, generation=generation, version=version).reply
    assert (reply.error_code, reply.member_id, reply.generation_id) == (ErrorCode.ILLEGAL_GENERATION, follower, -1)
    assert follower in h.group().members
    assert h.group().state == "Stable"
    assert h.join(member_id=follower, version=version).ok


def test_without_a_generation_a_follower_in_stable_is_given_the_current_one():
    h = GroupHarness()
    _, follower = h.stable()
    for _ in range(10):
        assert h.join(member_id=follower, generation=-1).reply.generation_id == 1


@pytest.mark.parametrize("static", [False, True])
def test_with_the_current_generation_a_follower_gets_a_rebalance_ten_times_of_ten(static):
    h = GroupHarness()
    leader, follower = h.stable(static=static)
    instances = ("i0", "i1") if static else (None, None)
    for generation in range(1, 11):
        asked = h.join(member_id=follower, instance=instances[1], generation=generation, reason="probing")
        assert asked.is_parked
        assert h.heartbeat("g", leader, generation).error is ErrorCode.REBALANCE_IN_PROGRESS
        assert h.join(member_id=leader, instance=instances[0], generation=generation).ok
        assert asked.reply.generation_id == generation + 1
        assert h.facts_named("rebalance_started")[-1]["cause"] == "a member enforces a rebalance"
        assert h.facts_named("rebalance_started")[-1]["client_reason"] == "probing"
        h.settle()


def test_while_preparing_the_generation_before_is_right_and_an_older_one_fenced():
    h = GroupHarness()
    leader, follower, third = h.stable(members=3)
    h.join(member_id=leader, generation=1)
    assert h.join(member_id=follower, generation=0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.join(member_id=follower, generation=1).is_parked
    assert h.join(member_id=third, generation=-1).ok


def test_in_completing_a_repeated_join_of_the_current_generation_is_no_rebalance():
    h = GroupHarness()
    _, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    assert h.join(member_id=follower, generation=1).reply.generation_id == 1
    assert h.group().state == "CompletingRebalance"


def test_in_completing_a_member_that_missed_the_answer_is_fenced_and_comes_back_with_its_id():
    h = GroupHarness()
    leader, follower = h.stable(protocols=owning(generation=-1))
    h.join(member_id=leader, protocols=LOST, generation=1)
    claim = owning(0, 1, generation=1)
    h.join(member_id=follower, protocols=claim, generation=1)
    assert h.group().generation == 2
    assert h.join(member_id=follower, protocols=claim, generation=1).error is ErrorCode.ILLEGAL_GENERATION
    again = h.join(member_id=follower, protocols=LOST)
    reply = h.join(member_id=leader, protocols=LOST, generation=2).reply
    assert again.ok
    assert {member.member_id: member.metadata for member in reply.members}[follower] == LOST["range"]


def test_an_id_that_has_not_joined_cannot_have_a_generation():
    h = GroupHarness()
    h.stable()
    member_id = h.join().reply.member_id
    assert h.join(member_id=member_id, generation=0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.join(member_id=member_id).is_parked


def test_a_member_without_an_id_is_new_whatever_generation_it_says():
    h = GroupHarness()
    h.stable()
    assert h.join(generation=0).error is ErrorCode.MEMBER_ID_REQUIRED
    assert h.join(instance="new", generation=7).is_parked


def test_an_unknown_member_is_unknown_first():
    h = GroupHarness()
    h.stable()
    assert h.join(member_id="made-up", generation=0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_fence_is_told():
    h = GroupHarness()
    _, follower = h.stable()
    h.join(member_id=follower, generation=0)
    assert h.facts_named("member_fenced") == [
        {"group_id": "g", "member_id": follower, "generation_claimed": 0, "generation": 1}
    ]


def test_two_owners_of_one_partition_end_with_one():
    """A static member pauses through a generation in which its partition is given away, and wakes up believing in it."""
    h = GroupHarness()
    timeouts = {"rebalance_ms": 5_000, "session_ms": 300_000}
    leader, sleeper = h.stable(static=True, protocols=owning(generation=0), **timeouts)
    awake = h.join(member_id=leader, instance="i0", generation=1, protocols=owning(1, generation=1), **timeouts)
    h.advance(5_000)
    assert awake.reply.generation_id == 2
    h.sync("g", leader, 2, {leader: b"0,1"}, instance="i0")
    stale = owning(0, generation=1)
    refused = h.join(member_id=sleeper, instance="i1", generation=1, protocols=stale, **timeouts)
    assert refused.error is ErrorCode.ILLEGAL_GENERATION
    back = h.join(member_id=sleeper, instance="i1", protocols=LOST, **timeouts)
    reply = h.join(
        member_id=leader, instance="i0", generation=2, protocols=owning(0, 1, generation=2), **timeouts
    ).reply
    assert back.ok
    metadata = {member.member_id: member.metadata for member in reply.members}
    assert metadata == {leader: owning(0, 1, generation=2)["range"], sleeper: LOST["range"]}
    assert h.group().claims is None
