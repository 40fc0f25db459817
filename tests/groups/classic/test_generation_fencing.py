"""The generation in a JoinGroup request (our extension, tagged field 792).

A member that missed a generation is fenced before its outdated claims can do harm (KIP-792). A member of the current
generation can enforce a rebalance (KIP-568).
"""

import pytest

from coordinator.protocol.errors import ErrorCode
from tests.groups.harness import GroupHarness, subscription

NOTHING_OWNED = {"range": subscription(["t"])}


def owning(*partitions, generation):
    return {"range": subscription(["t"], {"t": partitions}, generation)}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("generation", [0, 1, 3, 99])
def test_join_with_another_generation_is_fenced_and_the_member_keeps_its_id(version, generation):
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


def test_join_of_a_stable_follower_without_a_generation_returns_the_current_one():
    h = GroupHarness()
    _, follower = h.stable()
    for _ in range(10):
        assert h.join(member_id=follower, generation=-1).reply.generation_id == 1


@pytest.mark.parametrize("static", [False, True])
def test_join_with_the_current_generation_always_starts_a_rebalance(static):
    h = GroupHarness()
    leader, follower = h.stable(static=static)
    instances = ("i0", "i1") if static else (None, None)
    for generation in range(1, 11):
        request = h.join(member_id=follower, instance=instances[1], generation=generation, reason="probing")
        assert request.is_parked
        assert h.heartbeat("g", leader, generation).error is ErrorCode.REBALANCE_IN_PROGRESS
        assert h.join(member_id=leader, instance=instances[0], generation=generation).ok
        assert request.reply.generation_id == generation + 1
        assert h.facts_named("rebalance_started")[-1]["cause"] == "a member enforces a rebalance"
        assert h.facts_named("rebalance_started")[-1]["reason"] == "probing"
        h.settle()


def test_preparing_rebalance_accepts_the_last_generation_and_fences_older_ones():
    h = GroupHarness()
    leader, follower, third = h.stable(members=3)
    h.join(member_id=leader, generation=1)
    assert h.join(member_id=follower, generation=0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.join(member_id=follower, generation=1).is_parked
    assert h.join(member_id=third, generation=-1).ok


def test_completing_rebalance_accepts_a_repeated_join_of_its_generation():
    h = GroupHarness()
    _, follower = h.join_new_member(), h.join_new_member()
    h.advance(0)
    assert h.join(member_id=follower, generation=1).reply.generation_id == 1
    assert h.group().state == "CompletingRebalance"


def test_a_member_that_missed_its_join_response_is_fenced_and_rejoins_with_its_id():
    h = GroupHarness()
    leader, follower = h.stable(protocols=owning(generation=-1))
    h.join(member_id=leader, protocols=NOTHING_OWNED, generation=1)
    claim = owning(0, 1, generation=1)
    h.join(member_id=follower, protocols=claim, generation=1)
    assert h.group().generation == 2
    assert h.join(member_id=follower, protocols=claim, generation=1).error is ErrorCode.ILLEGAL_GENERATION
    rejoined = h.join(member_id=follower, protocols=NOTHING_OWNED)
    reply = h.join(member_id=leader, protocols=NOTHING_OWNED, generation=2).reply
    assert rejoined.ok
    assert {member.member_id: member.metadata for member in reply.members}[follower] == NOTHING_OWNED["range"]


def test_a_pending_member_id_that_claims_a_generation_is_fenced():
    h = GroupHarness()
    h.stable()
    member_id = h.join().reply.member_id
    assert h.join(member_id=member_id, generation=0).error is ErrorCode.ILLEGAL_GENERATION
    assert h.join(member_id=member_id).is_parked


def test_join_without_a_member_id_ignores_the_generation():
    h = GroupHarness()
    h.stable()
    assert h.join(generation=0).error is ErrorCode.MEMBER_ID_REQUIRED
    assert h.join(instance="new", generation=7).is_parked


def test_join_checks_the_member_id_before_the_generation():
    h = GroupHarness()
    h.stable()
    assert h.join(member_id="made-up", generation=0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_fenced_member_emits_a_fact():
    h = GroupHarness()
    _, follower = h.stable()
    h.join(member_id=follower, generation=0)
    assert h.facts_named("member_fenced") == [
        {"group_id": "g", "member_id": follower, "generation_claimed": 0, "generation": 1}
    ]


def test_a_fenced_member_rejoins_without_its_outdated_claim():
    """A static member sleeps through a generation that reassigns its partition, and rejoins with the outdated claim."""
    h = GroupHarness()
    timeouts = {"rebalance_ms": 5_000, "session_ms": 300_000}
    leader, sleeper = h.stable(static=True, protocols=owning(generation=0), **timeouts)
    other = h.join(member_id=leader, instance="i0", generation=1, protocols=owning(1, generation=1), **timeouts)
    h.advance(5_000)
    assert other.reply.generation_id == 2
    h.sync("g", leader, 2, {leader: b"0,1"}, instance="i0")
    stale = owning(0, generation=1)
    rejected = h.join(member_id=sleeper, instance="i1", generation=1, protocols=stale, **timeouts)
    assert rejected.error is ErrorCode.ILLEGAL_GENERATION
    rejoined = h.join(member_id=sleeper, instance="i1", protocols=NOTHING_OWNED, **timeouts)
    reply = h.join(
        member_id=leader, instance="i0", generation=2, protocols=owning(0, 1, generation=2), **timeouts
    ).reply
    assert rejoined.ok
    metadata = {member.member_id: member.metadata for member in reply.members}
    assert metadata == {leader: owning(0, 1, generation=2)["range"], sleeper: NOTHING_OWNED["range"]}
    assert h.group().claims is None
