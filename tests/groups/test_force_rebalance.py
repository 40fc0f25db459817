"""Rebalances from outside: an administrator forces one, or the rebalance interval passes. Groups of every kind."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinator.groups.delete_groups import delete_groups
from coordinator.groups.force_rebalance import CAUSE, Forced, ForceRebalance, force_rebalance
from coordinator.groups.group_configs import ConfiguredGroups
from coordinator.groups.kinds import Kind
from coordinator.groups.rebalance_interval import CAUSE as INTERVAL_CAUSE
from coordinator.groups.rebalance_interval import interval_key, settings_changed
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import ClassicGroupForcedRebalanceKey, GroupMetadataKey
from coordinator.runtime.result import Record
from tests.groups.consumer.consumer_world import Classic, ConsumerHarness, Modern
from tests.groups.converged import consumer_group, converge, streams_group
from tests.groups.harness import GroupHarness
from tests.groups.streams.streams_world import StreamsHarness

REASON = "the racks were moved"
INTERVAL = "group.rebalance.interval.ms"


def force(h: GroupHarness, group_id: str = "g") -> Forced:
    """The reply to an administrator."""
    return h.call(force_rebalance, ForceRebalance(group_id, REASON)).reply


def last_started(h: GroupHarness) -> Any:
    return h.events_of("RebalanceStarted")[-1]


# --- classic groups ---------------------------------------------------------------------------------------------------


def test_a_stable_classic_group_calls_its_members_to_rejoin():
    h = GroupHarness()
    leader, follower = h.stable()
    assert force(h) == Forced(Kind.CLASSIC, "Stable", 2)
    for member_id in (leader, follower):
        assert h.heartbeat("g", member_id, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    started = last_started(h)
    assert (started.epoch, started.cause, started.reason, started.member_id) == (2, CAUSE, REASON, None)
    h.settle()
    assert (h.group().generation, h.group().state) == (2, "Stable")
    assert h.events_of("RebalanceCompleted")[-1].cause == CAUSE


def test_a_forced_rebalance_in_the_sync_phase_answers_the_parked_syncs():
    h = GroupHarness()
    leader, follower = h.stable()
    force(h)
    h.join("g", leader)
    h.join("g", follower)
    parked = h.sync("g", follower, 2)
    assert force(h) == Forced(Kind.CLASSIC, "CompletingRebalance", 3)
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    h.settle()
    assert h.group().generation == 3


def test_nothing_happens_to_a_group_that_has_called_its_members_already():
    h = GroupHarness()
    h.stable()
    force(h)
    records, facts = len(h.records), len(h.facts)
    assert force(h) == Forced(Kind.CLASSIC, "PreparingRebalance", None)
    assert (len(h.records), len(h.facts)) == (records, facts)


def test_a_forced_rebalance_survives_a_crash_until_it_has_happened():
    h = GroupHarness()
    leader, follower = h.stable()
    force(h)
    h.join("g", leader)
    h.restart()
    assert h.group().state == "PreparingRebalance"
    assert h.heartbeat("g", follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert (last_started(h).cause, last_started(h).reason) == (CAUSE, REASON)
    h.settle()
    h.restart()
    assert (h.group().state, h.group().generation) == ("Stable", 2)


def test_members_that_do_not_rejoin_are_removed_after_the_rebalance_timeout():
    h = GroupHarness()
    leader, _ = h.stable(rebalance_ms=5_000, session_ms=60_000)
    force(h)
    h.join("g", leader, rebalance_ms=5_000, session_ms=60_000)
    h.advance(5_000)
    assert list(h.group().members) == [leader]


def test_static_members_are_called_too_and_stay():
    h = GroupHarness()
    h.stable(static=True)
    force(h)
    h.settle()
    assert (h.group().generation, len(h.group().members)) == (2, 2)


def test_a_crash_after_the_next_generation_was_formed_does_not_rebalance_again():
    h = GroupHarness()
    leader, follower = h.stable()
    force(h)
    h.join("g", leader)
    h.join("g", follower)
    h.restart()
    assert (h.group().state, h.group().generation) == ("CompletingRebalance", 2)


def test_a_rebalance_that_was_forced_in_the_sync_phase_survives_a_crash():
    h = GroupHarness()
    leader, follower = h.stable()
    force(h)
    h.join("g", leader)
    h.join("g", follower)
    assert force(h) == Forced(Kind.CLASSIC, "CompletingRebalance", 3)
    h.restart()
    assert (h.group().state, h.group().generation) == ("PreparingRebalance", 2)
    h.settle()
    assert h.group().generation == 3


@pytest.mark.parametrize("ends", ["it completes", "the group becomes Empty"])
def test_the_record_of_a_forced_rebalance_is_deleted_when_it_has_ended(ends: str):
    h = GroupHarness()
    ids = h.stable()
    force(h)
    if ends == "it completes":
        h.settle()
    else:
        h.leave("g", *ids)
    assert Record(ClassicGroupForcedRebalanceKey("g"), None) in h.records
    assert h.group().forced is None
    assert h.durable(h.records) == h.durable()


def test_a_group_record_that_another_server_wrote_ends_the_forced_rebalance():
    h = GroupHarness()
    h.stable()
    stable = h.records[-1] if isinstance(h.records[-1].key, GroupMetadataKey) else h.records[-2]
    force(h)
    h.records.append(stable)
    h.restart()
    assert h.group().state == "Stable"


def test_a_leftover_record_makes_no_group():
    h = GroupHarness()
    h.stable()
    force(h)
    h.records[:] = h.records[-1:]
    h.restart()
    assert h.groups.by_id == {}


def test_an_upgraded_group_forgets_the_classic_record():
    h = ConsumerHarness()
    classic = Classic(h)
    for _ in range(8):
        classic.beat()
        h.advance(0)
    assert force(h).state == "Stable"
    h.join_modern("g", "new")
    assert h.group().kind is Kind.CONSUMER
    assert Record(ClassicGroupForcedRebalanceKey("g"), None) in h.records
    assert h.durable(h.records) == h.durable()


# --- groups with epochs -----------------------------------------------------------------------------------------------


def test_a_consumer_group_gets_a_new_epoch_and_a_target_for_it_with_the_next_heartbeat():
    h = consumer_group()
    epoch, metadata_hash, held = h.consumer().group_epoch, h.consumer().metadata_hash, dict(h.consumer().target)
    assert force(h) == Forced(Kind.CONSUMER, "Stable", epoch + 1)
    group = h.consumer()
    assert (group.group_epoch, group.target_epoch, group.metadata_hash) == (epoch + 1, epoch, metadata_hash)
    assert h.beat("g", "a", epoch).reply.member_epoch == epoch + 1
    assert (h.consumer().target_epoch, h.consumer().target) == (epoch + 1, held)
    converge(h)
    rebalance = h.consumer().soft.rebalances[-1]
    assert (rebalance.cause, rebalance.reason, rebalance.ended_ms) == (CAUSE, REASON, h.now_ms)
    started, completed = last_started(h), h.events_of("RebalanceCompleted")[-1]
    assert (started.epoch, started.reason, started.member_id) == (epoch + 1, REASON, None)
    assert (completed.epoch, completed.cause) == (epoch + 1, CAUSE)


def test_the_assignment_interval_holds_for_forced_rebalances():
    h = consumer_group()
    epoch = h.consumer().group_epoch
    own = {"consumer.assignment.interval.ms": "5000"}
    h.groups.settings = ConfiguredGroups(h.config, lambda _: own)
    force(h)
    assert h.beat("g", "a", epoch).reply.member_epoch == epoch
    h.advance(5_000)
    assert h.beat("g", "a", epoch).reply.member_epoch == epoch + 1


def test_a_second_force_before_the_next_target_adds_nothing():
    h = consumer_group()
    epoch = h.consumer().group_epoch
    force(h)
    assert force(h) == Forced(Kind.CONSUMER, "Assigning", None)
    assert h.consumer().group_epoch == epoch + 1


def test_the_epoch_of_a_forced_rebalance_survives_a_crash():
    h = consumer_group()
    epoch = h.consumer().group_epoch
    force(h)
    h.restart()
    assert h.consumer().group_epoch == epoch + 1
    assert h.beat("g", "a", epoch).reply.member_epoch == epoch + 1


def test_classic_members_of_a_consumer_group_are_asked_to_rejoin():
    h = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    modern, classic = Modern(h, "a"), Classic(h)
    for _ in range(12):
        modern.beat()
        classic.beat()
    group = h.consumer()
    assert (group.classic_members, group.is_rebalancing) == (1, False)
    force(h)
    modern.beat()
    assert h.heartbeat("g", classic.id, classic.generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(8):
        modern.beat()
        classic.beat()
    assert (h.consumer().is_rebalancing, classic.generation) == (False, modern.epoch)


def test_a_streams_group_gets_a_new_epoch_and_a_target_for_it():
    h = streams_group()
    epoch = h.streams().group_epoch
    assert force(h) == Forced(Kind.STREAMS, "Stable", epoch + 1)
    assert h.streams().state == "Assigning"
    assert h.beat("m", epoch).reply.member_epoch == epoch + 1
    assert h.streams().state == "Stable"
    assert (last_started(h).cause, last_started(h).reason) == (CAUSE, REASON)


def test_the_initial_delay_of_a_streams_group_is_not_cut_short():
    h = StreamsHarness(group_streams_initial_rebalance_delay_ms=3_000)
    h.arrive("m")
    assert force(h) == Forced(Kind.STREAMS, "Assigning", None)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [GroupHarness, consumer_group, streams_group])
def test_a_group_without_members_has_nothing_to_rebalance(make: Callable[[], Any]):
    h = make()
    if make is GroupHarness:
        h.leave("g", *h.stable())
    else:
        for member_id in list(h.group().members):
            h.beat(member_id=member_id, epoch=-1)
    records = len(h.records)
    with pytest.raises(KafkaError) as refused:
        force(h)
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.INVALID_REQUEST,
        "the group has no members to rebalance; it is Empty",
    )
    assert len(h.records) == records


def test_an_unknown_group_and_one_with_offsets_only_are_refused():
    h = ConsumerHarness()
    h.commit("simple", "", -1, [("t", 0)])
    for group_id, code in (("none", ErrorCode.GROUP_ID_NOT_FOUND), ("simple", ErrorCode.INVALID_REQUEST)):
        with pytest.raises(KafkaError) as refused:
            force(h, group_id)
        assert refused.value.code is code


# --- the interval -----------------------------------------------------------------------------------------------------

MINUTE_MS = 60_000
LONG = {"group_consumer_session_timeout_ms": 10_000_000, "group_streams_session_timeout_ms": 10_000_000}


def classic_group(**config: Any) -> GroupHarness:
    h = GroupHarness(**config)
    h.stable(session_ms=1_800_000)
    return h


def rejoin(h: Any) -> None:
    """The members do their part of the rebalance."""
    group = h.group()
    if group.kind is Kind.CLASSIC:
        h.settle()
    elif group.kind is Kind.CONSUMER:
        converge(h)
    else:
        h.beat("m", group.members["m"].member_epoch)


KINDS = pytest.mark.parametrize(
    "make", [classic_group, partial(consumer_group, **LONG), partial(streams_group, **LONG)]
)


@KINDS
def test_a_group_rebalances_each_time_the_interval_has_passed_since_its_last_rebalance_ended(make):
    h = make(group_rebalance_interval_ms=MINUTE_MS)
    for _ in range(3):
        epoch = h.group().epoch
        h.advance(MINUTE_MS - 1)
        assert not h.group().is_rebalancing
        h.advance(1)
        assert h.group().is_rebalancing
        assert (last_started(h).cause, last_started(h).reason) == (INTERVAL_CAUSE, None)
        h.advance(2_000)
        rejoin(h)
        assert h.group().epoch == epoch + 1


@KINDS
def test_groups_do_not_rebalance_at_an_interval_by_default(make):
    h = make()
    h.advance(20 * MINUTE_MS)
    assert interval_key("g") not in h.timers
    assert not h.group().is_rebalancing


@KINDS
def test_the_interval_starts_again_when_the_log_is_loaded(make):
    h = make(group_rebalance_interval_ms=MINUTE_MS)
    h.advance(MINUTE_MS - 1)
    h.restart()
    h.advance(MINUTE_MS - 1)
    assert not h.group().is_rebalancing
    h.advance(1)
    assert h.group().is_rebalancing


@KINDS
def test_a_new_interval_of_one_group_counts_from_the_end_of_its_last_rebalance(make):
    h = make()
    own: dict[str, dict[str, str]] = {"g": {INTERVAL: "100000"}}
    h.groups.settings = ConfiguredGroups(h.config, lambda group_id: own.get(group_id, {}))
    h.advance(MINUTE_MS)
    h._apply(settings_changed(h.groups, "g", h.now_ms))
    h.advance(39_999)
    assert not h.group().is_rebalancing
    h.advance(1)
    assert h.group().is_rebalancing
    rejoin(h)
    own["g"] = {INTERVAL: "0"}
    h._apply(settings_changed(h.groups, "g", h.now_ms))
    assert interval_key("g") not in h.timers


def test_an_interval_that_passed_while_the_group_was_empty_does_nothing():
    h = GroupHarness(group_rebalance_interval_ms=MINUTE_MS)
    h.leave("g", *h.stable())
    h.advance(MINUTE_MS)
    assert h.group().state == "Empty"


def test_an_interval_that_is_turned_off_while_the_group_is_empty_does_not_pass_later():
    h = GroupHarness(group_rebalance_interval_ms=MINUTE_MS)
    h.leave("g", *h.stable())
    h.groups.settings = ConfiguredGroups(h.config, lambda _: {INTERVAL: "0"})
    h._apply(settings_changed(h.groups, "g", h.now_ms))
    h.stable(session_ms=1_800_000)
    h.advance(MINUTE_MS)
    assert h.group().state == "Stable"


def test_deleting_a_group_disarms_its_interval():
    h = GroupHarness(group_rebalance_interval_ms=MINUTE_MS)
    h.leave("g", *h.stable())
    assert interval_key("g") in h.timers
    h.call(delete_groups, ["g"])
    assert interval_key("g") not in h.timers
