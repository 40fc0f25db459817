"""Bounds on the memory of groups: `limit.group.bytes` for one group, `limit.groups.bytes` for all of them."""

import pytest

from coordinator.groups.held_bytes import GROUP_BYTES, MEMBER_BYTES, SMALL_BYTES, HeldBytes
from coordinator.protocol.errors import ErrorCode
from tests.groups.consumer.consumer_world import Classic, ConsumerHarness
from tests.groups.harness import GroupHarness, subscription
from tests.groups.streams.streams_world import PLAIN, STATEFUL, StreamsHarness, part, topology

KIB = 1024
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
LATER = ErrorCode.COORDINATOR_NOT_AVAILABLE
LARGE = {"range": b"x" * 20 * KIB}
SMALL_MEMBER = MEMBER_BYTES + SMALL_BYTES


def total(h: GroupHarness) -> int:
    h.check_held_bytes()
    return h.groups.held_bytes.all_shards.total


# --- one group --------------------------------------------------------------------------------------------------------


def test_a_join_beyond_the_limit_of_its_group_is_refused_and_other_groups_are_not():
    h = GroupHarness(limit_group_bytes=50 * KIB)
    assert h.join(version=3, protocols=LARGE).is_parked
    assert h.join(version=3, protocols=LARGE).is_parked
    assert h.join(version=3, protocols=LARGE).error is FULL
    assert h.join("other", version=3, protocols=LARGE).is_parked
    assert h.groups.counters.too_large == {"limit.group.bytes": 1}


def test_a_member_that_leaves_makes_room():
    h = GroupHarness(limit_group_bytes=50 * KIB)
    ids = h.stable(protocols=LARGE)
    assert h.join(version=3, protocols=LARGE).error is FULL
    assert h.leave("g", ids[1]).ok
    assert h.join(version=3, protocols=LARGE).is_parked


def test_a_member_that_joins_again_may_say_less_or_as_much_but_not_more_than_fits():
    h = GroupHarness(limit_group_bytes=50 * KIB)
    leader, follower = h.stable(protocols=LARGE)
    assert h.join(member_id=follower, protocols={"range": b"y" * 40 * KIB}).error is FULL
    assert h.heartbeat("g", follower, 1).ok, "it is still a member"
    assert h.join(member_id=leader, protocols=LARGE).is_parked
    assert h.join(member_id=follower, protocols={"range": b"y" * 20 * KIB}).ok


def test_a_static_member_that_comes_back_may_not_say_more_than_fits():
    h = GroupHarness(limit_group_bytes=50 * KIB)
    ids = h.stable(protocols=LARGE, static=True)
    assert h.join(instance="i1", protocols={"range": b"y" * 40 * KIB}).error is FULL
    assert h.heartbeat("g", ids[1], 1, instance="i1").ok, "nobody took its place"
    assert h.join(instance="i1", protocols=LARGE).ok


def test_member_ids_that_were_handed_out_count():
    h = GroupHarness(limit_group_bytes=10 * KIB)
    assert h.join(client_id="c" * 5 * KIB).error is ErrorCode.MEMBER_ID_REQUIRED
    assert h.join(client_id="c" * 5 * KIB).error is FULL
    h.advance(30_000)  # the session timeout of the id
    assert h.join(client_id="c" * 5 * KIB).error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_handed_out_id_whose_join_is_refused_is_still_forgotten_in_time():
    h = GroupHarness(limit_group_bytes=10 * KIB)
    member_id = h.join().reply.member_id
    assert h.join(member_id=member_id, protocols=LARGE).error is FULL
    assert set(h.group().pending_joins) == {member_id}
    h.advance(30_000)
    assert not h.group().pending_joins


def test_assignments_beyond_the_limit_fail_the_generation_and_the_group_rebalances():
    """Kafka answers the same if the record of a generation is too large for its log."""
    h = GroupHarness(limit_group_bytes=50 * KIB)
    leader, follower = h.stable()
    assert h.join(member_id=leader).is_parked
    assert h.join(member_id=follower).ok
    waiting = h.sync("g", follower, 2)
    assert h.sync("g", leader, 2, {leader: b"a" * 60 * KIB, follower: b""}).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert waiting.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert h.heartbeat("g", leader, 2).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert {each.assignment for each in h.group().members.values()} == {b""}
    h.settle()
    assert h.group().state.value == "Stable"


def test_a_resync_beyond_the_limit_is_refused():
    h = GroupHarness(limit_group_bytes=50 * KIB)
    leader, follower = h.stable()
    refused = h.sync("g", leader, 1, {leader: b"a" * 60 * KIB, follower: b"A1"}, resync=1, version=5)
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert h.group().resync is None


def test_consumer_group_members_may_not_subscribe_to_more_than_fits():
    h = ConsumerHarness(limit_group_bytes=50 * KIB)
    names = [f"topic-{i:03d}" for i in range(400)]
    assert h.join_modern("g", "m", topics=names).ok
    assert h.join_modern("g", "n", topics=names).error is FULL
    assert h.join_modern("g", "n", topics=["t"]).ok
    before = h.group().members["n"]
    assert h.beat("g", "n", before.member_epoch, topics=names).error is FULL
    assert h.group().members["n"] is before
    assert h.join_modern("other", "n", topics=names).ok


def test_the_topology_of_a_streams_group_counts_once():
    h = StreamsHarness(limit_group_bytes=50 * KIB)
    large = topology(part(repartition_sinks=[f"topic-{i:03d}" for i in range(400)]))
    assert h.arrive("m", sent=large).ok
    assert h.arrive("n", sent=large).ok
    larger = topology(part(repartition_sinks=[f"topic-{i:03d}" for i in range(1_000)]))
    assert h.arrive("m", group_id="other", sent=larger).error is FULL


def test_reported_task_offsets_count():
    h = StreamsHarness(limit_group_bytes=50 * KIB)
    assert h.arrive("m").ok
    epoch = h.member("m").member_epoch
    assert h.beat("m", epoch, offsets=[("0", number, 5) for number in range(1_000)]).error is FULL
    assert h.beat("m", epoch, offsets=[("0", number, 5) for number in range(100)]).ok
    h.check_held_bytes()
    assert h.beat("m", -1).ok
    h.check_held_bytes()


# --- all groups -------------------------------------------------------------------------------------------------------


def test_all_groups_share_a_limit_and_clients_are_asked_to_try_again():
    h = ConsumerHarness(limit_groups_bytes=70 * KIB)
    assert h.join("a", version=3, protocols=LARGE).is_parked
    assert h.join("b", version=3, protocols=LARGE).is_parked
    assert h.join("c", version=3, protocols={"range": b"x" * 30 * KIB}).error is LATER
    assert h.join_modern("d", "m", topics=[f"topic-{i:03d}" for i in range(500)]).error is LATER
    assert h.groups.counters.too_large == {"limit.groups.bytes": 2}
    h.advance(300_000)  # the first joins expire
    assert h.join("c", version=3, protocols={"range": b"x" * 30 * KIB}).is_parked


@pytest.mark.parametrize("commit", [False, True])
def test_no_group_is_created_beyond_the_limit_of_all(commit):
    h = ConsumerHarness(limit_groups_bytes=3 * GROUP_BYTES + 100)
    answers = [
        h.commit(name, "", -1, [("t", 0)])[0] if commit else h.join(name, version=3, protocols=LARGE).error
        for name in ("a", "b", "c", "d")
    ]
    assert answers == [ErrorCode.NONE] * 3 + [LATER] if commit else [LATER] * 4


def test_small_members_are_served_however_much_others_hold():
    """They may join again, change their metadata and be assigned something: it is paid for when they join first."""
    h = GroupHarness(limit_groups_bytes=100 * KIB)
    leader, follower = h.stable("g")
    while h.join("greedy", version=3, protocols={"range": b"x" * 10 * KIB}).is_parked:
        pass
    while h.join("greedy", version=3).is_parked:
        pass
    assert h.join("new", version=3).error is LATER
    assert h.join("g", follower, protocols={"range": subscription(["t", "u"])}).is_parked
    h.settle("g")
    assert [each.assignment for each in h.group("g").members.values()] == [b"A0", b"A1"]
    assert h.leave("g", leader).ok


def test_large_assignments_wait_while_other_groups_take_the_room():
    h = GroupHarness(limit_groups_bytes=100 * KIB)
    (leader,) = h.stable("g", members=1)
    assert h.join("other", version=3, protocols={"range": b"x" * 60 * KIB}).is_parked
    assert h.join("g", leader).ok
    assert h.sync("g", leader, 2, {leader: b"a" * 50 * KIB}).error is LATER
    h.advance(300_000)  # the other group's member expires
    (leader,) = h.stable("g", members=1)
    assert h.join("g", leader).ok
    assert h.sync("g", leader, h.group("g").generation, {leader: b"a" * 50 * KIB}).ok


# --- counting ---------------------------------------------------------------------------------------------------------


def test_a_group_that_is_gone_holds_nothing():
    h = GroupHarness()
    for name in ("a", "b"):
        ids = h.stable(name, protocols=LARGE)
        assert h.leave(name, *ids).ok
    assert total(h) == 2 * (GROUP_BYTES + 1)


def test_a_restart_counts_the_same_members_again():
    h = GroupHarness()
    h.stable("g", members=3)
    before = total(h)
    h.restart()
    assert total(h) == before


def test_an_upgrade_and_a_downgrade_carry_the_count_over():
    h = ConsumerHarness()
    clients = [Classic(h), Classic(h)]
    for _ in range(5):
        for client in clients:
            client.beat()
        h.advance(600)
    assert h.group().state.value == "Stable"
    assert h.join_modern("g", "m").ok
    assert h.group().kind.label == "consumer"
    assert h.group().held_bytes == GROUP_BYTES + 1 + sum(each.held_bytes for each in h.group().members.values())
    total(h)
    assert h.beat("g", "m", -1).ok
    assert h.group().kind.label == "classic"
    assert h.group().held_bytes == GROUP_BYTES + 1 + 2 * SMALL_MEMBER
    total(h)


def test_a_generation_with_more_subscriptions_than_are_parsed_protects_all_offsets(monkeypatch):
    """A megabyte of short names would take forty in memory."""
    monkeypatch.setattr("coordinator.groups.classic.rebalance.SUBSCRIPTIONS_BYTES_MAX", 10 * KIB)
    h = GroupHarness()
    names = [f"t{i}" for i in range(100)]
    h.stable("few", members=1, protocols={"range": subscription(names)})
    assert not h.group("few").is_subscribed_to("other")
    for i in range(3):
        h.join_new_member("many", protocols={"range": subscription([f"{i}{name}" for name in names])})
    h.settle("many")
    assert h.group("many").is_subscribed_to("other")
    total(h)


def test_a_shard_that_is_loaded_again_counts_from_zero():
    held = HeldBytes()
    held.of_shard(0).add(5)
    held.of_shard(1).add(7)
    held.of_shard(0).add(1)
    assert held.total == 8


def test_a_small_topology_cannot_ask_for_more_tasks_than_the_limit(monkeypatch):
    """A hundred subtopologies that read one topic of 9,000 partitions are refused before a task is made."""
    monkeypatch.setattr("coordinator.groups.streams.update.assign", lambda _: pytest.fail("it was assigned"))
    h = StreamsHarness({"t": 9_000})
    refused = h.arrive(sent=topology(*(part(str(number)) for number in range(100))))
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert "900000 tasks" in refused.reply.error_message
    assert h.groups.by_id == {}
    assert h.groups.held_bytes.count == 0


def test_standby_tasks_count_among_the_tasks_of_a_group():
    h = StreamsHarness({"t": 4, "t-log": 4}, limit_group_tasks=7, group_streams_num_standby_replicas=1)
    assert h.arrive(sent=PLAIN).ok
    assert h.arrive(group_id="h", sent=STATEFUL).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_large_target_is_paid_for_before_it_is_made_and_a_small_one_never_refused():
    h = ConsumerHarness({"wide": 2_000, "t": 4}, limit_groups_bytes=200 * KIB)
    join = {"owned": {}, "rebalance_ms": 60_000}
    refused = h.beat(member_id="m", topics=["wide"], **join)
    assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert h.groups.by_id == {}
    assert h.beat(member_id="m", topics=["t"], **join).ok
