"""Expiry: which offsets expire, when, and which never do. Retention is 7 days, checked every 10 minutes, as in Kafka."""

import pytest

from coordinator.groups.classic.states import State
from coordinator.groups.offsets import expire
from coordinator.runtime.timers import GRACE_MS
from tests.groups.offsets.group_states import GENERATION, MEMBER, all_leave, emptied_group, live_group
from tests.groups.offsets.offset_coordinator import MINUTE_MS, OffsetCoordinator

P0 = ("topic", 0)
P1 = ("topic", 1)
OTHER = ("other", 0)
RETENTION_MS = 10_080 * MINUTE_MS
CHECK_MS = 10 * MINUTE_MS


@pytest.fixture
def coordinator() -> OffsetCoordinator:
    coordinator = OffsetCoordinator()
    coordinator.topics.add("topic", 4)
    coordinator.topics.add("other", 4)
    return coordinator


def test_a_simple_groups_offset_expires_a_retention_after_its_commit(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS - 1)
    coordinator.commit("g", {P1: 2})
    coordinator.pass_time(1)
    assert coordinator.fetch("g") == {P1: 2}
    coordinator.pass_time(RETENTION_MS - 1)
    assert coordinator.fetch("g") == {P1: 2}


def test_a_group_is_deleted_with_its_last_offset(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS)
    assert coordinator.state.by_id == {}
    assert coordinator.state.offsets.count == 0
    coordinator.restart()
    assert coordinator.state.by_id == {}


def test_committing_again_restarts_the_retention(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS - 1)
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS - 1)
    assert coordinator.fetch("g") == {P0: 1}


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_the_retention_of_an_empty_group_starts_when_it_becomes_empty(coordinator, protocol_type):
    group = live_group(coordinator, "g", protocol_type=protocol_type, topics=("topic",))
    coordinator.commit("g", {P0: 1}, member_id=MEMBER, generation=GENERATION)
    coordinator.pass_time(RETENTION_MS)
    all_leave(coordinator, group)
    coordinator.pass_time(RETENTION_MS - 1)
    assert coordinator.fetch("g") == {P0: 1}
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == {}
    assert coordinator.state.by_id == {}


def test_a_restart_does_not_prolong_the_retention_of_an_empty_group(coordinator):
    emptied_group(coordinator, "g")
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS // 2)
    coordinator.restart()
    coordinator.pass_time(RETENTION_MS // 2 + CHECK_MS)
    assert coordinator.state.by_id == {}


def test_without_a_state_timestamp_the_retention_starts_at_the_commit(coordinator):
    """Group records that an old Kafka wrote in version 0 or 1 have no state timestamp."""
    emptied_group(coordinator, "g").state_timestamp_ms = None
    coordinator.pass_time(1)
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(RETENTION_MS - 1)
    assert coordinator.fetch("g") == {P0: 1}
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == {}


def test_in_a_stable_consumer_group_only_unsubscribed_topics_expire(coordinator):
    live_group(coordinator, "g", topics=("topic",))
    coordinator.commit("g", {P0: 1, OTHER: 2}, member_id=MEMBER, generation=GENERATION)
    coordinator.pass_time(3 * RETENTION_MS)
    assert coordinator.fetch("g") == {P0: 1}
    assert "g" in coordinator.state.by_id


def test_a_live_group_outlives_its_last_offset(coordinator):
    live_group(coordinator, "g", topics=("topic",))
    coordinator.commit("g", {OTHER: 2}, member_id=MEMBER, generation=GENERATION)
    coordinator.pass_time(RETENTION_MS)
    assert coordinator.fetch("g") == {}
    assert coordinator.state.by_id["g"].members


@pytest.mark.parametrize("state", [State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE])
def test_nothing_expires_during_a_rebalance(coordinator, state):
    group = live_group(coordinator, "g", topics=("topic",))
    coordinator.commit("g", {P0: 1, OTHER: 2}, member_id=MEMBER, generation=GENERATION)
    group.state = state
    coordinator.pass_time(3 * RETENTION_MS)
    assert coordinator.fetch("g") == {P0: 1, OTHER: 2}


def test_nothing_expires_while_subscriptions_cannot_be_read(coordinator):
    live_group(coordinator, "g", topics=None)
    coordinator.commit("g", {P0: 1}, member_id=MEMBER, generation=GENERATION)
    coordinator.pass_time(3 * RETENTION_MS)
    assert coordinator.fetch("g") == {P0: 1}


def test_nothing_expires_in_a_live_group_of_another_type(coordinator):
    live_group(coordinator, "g", protocol_type="connect")
    coordinator.commit("g", {P0: 1}, member_id=MEMBER, generation=GENERATION)
    coordinator.pass_time(3 * RETENTION_MS)
    assert coordinator.fetch("g") == {P0: 1}


@pytest.mark.parametrize(("retention_ms", "kept"), [(RETENTION_MS * 2, True), (CHECK_MS + 1, True), (CHECK_MS, False)])
def test_an_offsets_own_expiry_replaces_the_groups_retention(coordinator, retention_ms, kept):
    coordinator.commit("g", {P0: 1}, 2, retention_time_ms=retention_ms)
    coordinator.restart()
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == ({P0: 1} if kept else {})


def test_an_offsets_own_expiry_does_not_override_a_subscription(coordinator):
    live_group(coordinator, "g", topics=("topic",))
    coordinator.commit("g", {P0: 1}, 2, member_id=MEMBER, generation=GENERATION, retention_time_ms=1)
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == {P0: 1}


def test_an_empty_group_without_offsets_is_deleted_at_the_next_check(coordinator):
    emptied_group(coordinator, "g")
    coordinator.pass_time(CHECK_MS)
    assert coordinator.state.by_id == {}
    assert coordinator.records()[-1].value is None


def test_a_check_that_finds_nothing_writes_nothing(coordinator):
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(20 * CHECK_MS)
    assert len(coordinator.log) == 1
    assert coordinator.shards[0].facts == []


def test_retention_and_interval_are_settings(coordinator):
    coordinator = OffsetCoordinator(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000)
    coordinator.topics.add("topic", 1)
    coordinator.commit("g", {P0: 1})
    coordinator.pass_time(MINUTE_MS - 1_000)
    assert coordinator.fetch("g") == {P0: 1}
    coordinator.pass_time(1_000)
    assert coordinator.fetch("g") == {}


def test_many_offsets_expire_in_several_turns(coordinator, monkeypatch):
    monkeypatch.setattr(expire, "RECORDS_PER_TURN_MAX", 5)
    for group_id in ("a", "b", "c"):
        coordinator.commit(group_id, {("topic", index): 1 for index in range(4)})
    coordinator.now_ms += RETENTION_MS
    turn = expire.fire(coordinator.state, coordinator.now_ms)
    assert len(turn.records) <= 6
    assert turn.timers[0].delay_ms == 0
    coordinator.pass_time(GRACE_MS)  # the jump of the clock made the wake-up late
    assert coordinator.state.by_id == {}
    assert coordinator.state.offsets.count == 0
    expired = [fact.fields for fact in coordinator.shards[0].facts]
    assert sum(fields["offsets"] for fields in expired) == 12
    assert sum(fields["groups"] for fields in expired) == 3


def test_a_partition_with_a_pending_offset_and_its_group_are_kept(coordinator):
    coordinator.commit("g", {P0: 1, P1: 2})
    coordinator.stage("g", {P0: 3})
    coordinator.pass_time(RETENTION_MS)
    assert coordinator.fetch("g") == {P0: 1}
    coordinator.end("g", commits=False)
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == {}
    assert coordinator.state.by_id == {}


def test_a_group_with_only_pending_offsets_is_kept_until_they_are_aborted(coordinator):
    coordinator.stage("g", {P0: 3})
    coordinator.pass_time(2 * RETENTION_MS)
    assert set(coordinator.state.by_id) == {"g"}
    coordinator.restart()
    assert set(coordinator.state.by_id) == {"g"}
    coordinator.end("g", commits=False)
    assert set(coordinator.state.by_id) == {"g"}
    coordinator.pass_time(CHECK_MS)
    assert coordinator.state.by_id == {}


def test_a_transactions_offset_expires_by_its_commit_not_by_its_marker(coordinator):
    coordinator.stage("g", {P0: 3})
    coordinator.pass_time(RETENTION_MS)
    coordinator.end("g", commits=True)
    assert coordinator.fetch("g") == {P0: 3}
    coordinator.pass_time(CHECK_MS)
    assert coordinator.fetch("g") == {}
