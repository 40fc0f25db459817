"""Acts of an administrator on groups of every kind: evict, end a session, raise the epoch, let offsets expire."""

from typing import Any

import pytest

from coordinator.groups.administration import (
    BUMPED,
    EVICTED,
    ActOnGroup,
    ActOnMember,
    bump_epoch,
    evict,
    expire_session,
)
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.protocol.errors import ErrorCode, KafkaError
from tests.groups.consumer.consumer_world import Classic, ConsumerHarness, Modern
from tests.groups.converged import consumer_group, converge, streams_group
from tests.groups.harness import GroupHarness

REASON = "a test"
CHANGED = (("range", b"changed"),)


def act(h: GroupHarness, operation: Any, member_id: str) -> Any:
    return h.call(operation, ActOnMember("g", member_id, REASON)).reply


def bump(h: GroupHarness) -> Any:
    return h.call(bump_epoch, ActOnGroup("g", REASON)).reply


def refusal(h: GroupHarness, operation: Any, request: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(KafkaError) as refused:
        operation(h.groups, request, None, h.now_ms)
    return refused.value.code, refused.value.message or ""


# --- evict and expire-session: classic groups -------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [evict, expire_session])
def test_a_removed_member_is_unknown_and_the_others_rejoin(operation: Any):
    h = GroupHarness()
    leader, follower = h.stable()
    act(h, operation, follower)
    assert h.heartbeat("g", follower, 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat("g", leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    h.settle()
    assert (list(h.group().members), h.group().generation) == ([leader], 2)


@pytest.mark.parametrize("operation", [evict, expire_session])
@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("who", [0, 1])
def test_a_crash_does_not_bring_a_removed_member_of_a_classic_group_back(operation: Any, static: bool, who: int):
    h = GroupHarness()
    ids = h.stable(members=3, static=static)
    act(h, operation, ids[who])
    h.restart()
    assert ids[who] not in h.group().members
    assert h.group().state == "PreparingRebalance", "the others are called to rejoin, as before the crash"
    assert h.heartbeat("g", ids[who], 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    h.settle()
    h.restart()
    assert sorted(h.group().members) == sorted(set(ids) - {ids[who]})
    assert h.durable(h.records) == h.durable()


def test_several_evictions_in_one_round_all_survive_a_crash():
    h = GroupHarness()
    ids = h.stable(members=3)
    act(h, evict, ids[0])
    act(h, evict, ids[2])
    h.restart()
    assert list(h.group().members) == [ids[1]]


def test_evicting_the_last_member_empties_the_group():
    h = GroupHarness()
    (only,) = h.stable(members=1)
    act(h, evict, only)
    h.restart()
    assert (h.group().state, h.group().generation) == ("Empty", 2)


def test_an_evicted_member_gets_answers_to_its_parked_join_and_sync():
    h = GroupHarness()
    leader, follower = h.stable()
    parked = h.join("g", follower, protocols=CHANGED)
    act(h, evict, follower)
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID
    newcomer = h.join_new_member()
    h.join("g", leader)
    parked = h.sync("g", newcomer, 2)
    act(h, evict, newcomer)
    assert parked.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_in_the_sync_phase_the_generation_that_is_forming_is_stored_without_the_member():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join("g", leader, protocols=CHANGED)
    h.join("g", follower)
    assert h.group().state == "CompletingRebalance"
    act(h, evict, follower)
    h.restart()
    assert (list(h.group().members), h.group().state) == ([leader], "PreparingRebalance")


def test_the_events_name_the_act_and_its_reason():
    h = GroupHarness()
    _, follower = h.stable()
    act(h, evict, follower)
    left, started = h.events_of("MemberLeft")[-1], h.events_of("RebalanceStarted")[-1]
    assert (left.member_id, left.reason) == (follower, f"{EVICTED}: {REASON}")
    assert (started.cause, started.reason, started.member_id) == (EVICTED, REASON, follower)


def test_an_ended_session_looks_like_one_that_has_ended_by_itself():
    by_itself, by_hand = GroupHarness(), GroupHarness()
    for h in (by_itself, by_hand):
        h.stable(session_ms=6_000)
    for _ in range(2):
        by_itself.advance(4_000)
        by_itself.heartbeat("g", by_itself.group().leader_id, 1)
    act(by_hand, expire_session, list(by_hand.group().members)[1])
    for event in ("MemberExpired", "RebalanceStarted"):
        real, acted = by_itself.events_of(event)[-1], by_hand.events_of(event)[-1]
        real.time_ms = acted.time_ms = real.state_offset = acted.state_offset = 0
        assert real == acted


def test_the_session_of_a_member_whose_join_is_parked_cannot_be_ended():
    h = GroupHarness()
    _, follower = h.stable()
    h.join("g", follower, protocols=CHANGED)
    code, text = refusal(h, expire_session, ActOnMember("g", follower))
    assert (code, "waits for an answer" in text) == (ErrorCode.INVALID_REQUEST, True)
    assert follower in h.group().members


def test_unknown_groups_and_members_are_refused():
    h = GroupHarness()
    h.stable()
    for operation in (evict, expire_session):
        assert refusal(h, operation, ActOnMember("none", "m"))[0] is ErrorCode.GROUP_ID_NOT_FOUND
        assert refusal(h, operation, ActOnMember("g", "nobody"))[0] is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal(h, bump_epoch, ActOnGroup("none"))[0] is ErrorCode.GROUP_ID_NOT_FOUND


# --- evict and expire-session: groups with epochs ---------------------------------------------------------------------


@pytest.mark.parametrize("operation", [evict, expire_session])
def test_a_removed_member_of_a_consumer_group_is_unknown_and_its_partitions_are_free(operation: Any):
    h = consumer_group()
    epoch = h.consumer().group_epoch
    act(h, operation, "b")
    h.restart()
    assert (list(h.consumer().members), h.consumer().group_epoch) == (["a"], epoch + 1)
    assert h.beat("g", "b", epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    converge(h, "a")
    assert sum(map(len, h.member("a").assigned.values())) == 4


@pytest.mark.parametrize("operation", [evict, expire_session])
def test_a_removed_member_of_a_streams_group_is_unknown(operation: Any):
    h = streams_group()
    epoch = h.member("m").member_epoch
    act(h, operation, "m")
    h.restart()
    assert not h.streams().members
    assert h.beat("m", epoch).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_eviction_of_the_last_modern_member_makes_the_group_classic():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    modern, classic = Modern(h, "a"), Classic(h)
    for _ in range(12):
        modern.beat()
        classic.beat()
    act(h, evict, "a")
    assert (h.group().kind.label, list(h.group().members)) == ("classic", [classic.id])
    h.restart()
    assert list(h.group().members) == [classic.id]


def test_the_events_of_a_group_with_epochs_name_the_act_and_its_reason():
    h = consumer_group()
    act(h, evict, "b")
    left, started = h.events_of("MemberLeft")[-1], h.events_of("RebalanceStarted")[-1]
    assert (left.member_id, left.reason) == ("b", f"{EVICTED}: {REASON}")
    assert (started.cause, started.reason) == (EVICTED, REASON)


# --- bump-epoch -------------------------------------------------------------------------------------------------------


def test_a_bumped_generation_keeps_members_and_assignments_and_fences_the_old_number():
    h = GroupHarness()
    leader, follower = h.stable()
    held = {member_id: member.assignment for member_id, member in h.group().members.items()}
    bump(h)
    for _ in range(2):
        assert (h.group().generation, h.group().state) == (2, "Stable")
        assert {member_id: member.assignment for member_id, member in h.group().members.items()} == held
        assert h.heartbeat("g", follower, 1).error is ErrorCode.ILLEGAL_GENERATION
        assert h.heartbeat("g", leader, 2).ok
        h.restart()
    started, completed = h.events_of("RebalanceStarted")[-1], h.events_of("RebalanceCompleted")[-1]
    assert (started.epoch, started.cause, started.reason) == (2, BUMPED, REASON)
    assert (completed.epoch, completed.cause) == (2, BUMPED)


def test_members_that_notice_a_bumped_generation_rejoin_and_settle():
    h = GroupHarness()
    leader, follower = h.stable()
    bump(h)
    assert h.join("g", follower).reply.generation_id == 2, "nothing has changed: it gets the generation as it is"
    assert h.sync("g", follower, 2).reply.assignment == b"A1"
    assert h.join("g", leader).is_parked, "the leader's join begins a rebalance"
    h.settle()
    assert h.group().generation == 3


def test_a_bump_in_the_sync_phase_ends_the_generation_that_waits_for_its_assignment():
    h = GroupHarness()
    leader, follower = h.stable()
    h.join("g", leader, protocols=CHANGED)
    h.join("g", follower)
    parked = h.sync("g", follower, 2)
    bump(h)
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(2):
        assert (h.group().state, h.group().generation) == ("PreparingRebalance", 3)
        assert h.sync("g", leader, 2, {leader: b"x"}).error is ErrorCode.ILLEGAL_GENERATION
        h.restart()
    h.settle()
    assert h.group().generation == 4


def test_a_group_about_to_have_a_new_generation_or_without_members_is_not_bumped():
    h = GroupHarness()
    leader, follower = h.stable()
    h.leave("g", follower)
    assert refusal(h, bump_epoch, ActOnGroup("g"))[0] is ErrorCode.INVALID_REQUEST
    h.leave("g", leader)
    assert refusal(h, bump_epoch, ActOnGroup("g")) == (
        ErrorCode.INVALID_REQUEST,
        "the group has no members; it is Empty",
    )


def test_the_assignment_interval_does_not_put_off_a_bumped_epoch():
    h = consumer_group()
    epoch = h.consumer().group_epoch
    h.groups.settings = ConfiguredGroups(h.config, lambda _: {"consumer.assignment.interval.ms": "5000"})
    bump(h)
    bump(h)
    h.restart()
    h.groups.settings = ConfiguredGroups(h.config, lambda _: {"consumer.assignment.interval.ms": "5000"})
    assert (h.consumer().group_epoch, h.consumer().target_epoch) == (epoch + 2, epoch)
    assert h.beat("g", "a", epoch).reply.member_epoch == epoch + 2
    converge(h)
    assert h.events_of("RebalanceStarted")[-1].reason == REASON


def test_a_streams_group_is_bumped_too():
    h = streams_group()
    epoch = h.streams().group_epoch
    bump(h)
    h.restart()
    assert h.streams().group_epoch == epoch + 1
    assert h.beat("m", epoch).reply.member_epoch == epoch + 1
