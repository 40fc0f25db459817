"""Which commits a consumer group accepts, under each policy."""

import pytest

from coordinator.groups.offsets.fetch import fetch_group
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH, STRICT
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import OffsetFetchRequest
from tests.groups.consumer.consumer_world import (
    INTERVAL_MS,
    Classic,
    Modern,
    bumped,
    halved,
    settle,
    world,
)

NONE, STALE = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH
ALL = [("t", partition) for partition in range(4)]


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_at_its_epoch_a_member_may_commit(policy):
    h = halved(policy)
    assert h.commit("g", "a", 3, ALL[:2]) == [NONE, NONE]


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_ownership_can_be_required_for_commits_at_the_member_epoch(policy):
    assert halved(policy).commit("g", "a", 3, [("t", 2)]) == [NONE]
    h = halved(policy, consumer_fencing_require_ownership="true")
    assert h.commit("g", "a", 3, [("t", 2)]) == [STALE]
    assert h.commit("g", "a", 3, [("t", 0)]) == [NONE]
    assert h.groups.counters.fenced == {"the member does not own the partition": 1}


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_commit_with_an_epoch_before_the_loss_of_the_partition_is_stale(policy):
    h = halved(policy)
    assert h.commit("g", "a", 2, [("t", 2)]) == [STALE]
    assert h.commit("g", "a", 2, [("t", 0), ("t", 2)]) == [STALE, STALE]
    assert h.groups.offsets.count == 0


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_an_epoch_of_the_future_is_stale(policy):
    assert halved(policy).commit("g", "a", 4, [("t", 0)]) == [STALE]


@pytest.mark.parametrize(("policy", "expected"), [(STRICT, STALE), (REVOCATION_EPOCH, NONE), (ASSIGNMENT_EPOCH, NONE)])
def test_an_earlier_epoch_without_a_revocation_depends_on_the_policy(policy, expected):
    assert bumped(policy).commit("g", "a", 2, ALL) == [expected] * 4


@pytest.mark.parametrize(("policy", "expected"), [(STRICT, STALE), (REVOCATION_EPOCH, STALE), (ASSIGNMENT_EPOCH, NONE)])
def test_an_earlier_epoch_of_a_kept_partition_depends_on_the_policy(policy, expected):
    assert halved(policy).commit("g", "a", 2, [("t", 0)]) == [expected]


def test_the_policy_of_a_group_can_be_changed_at_any_time():
    h = bumped(STRICT)
    assert h.commit("g", "a", 2, [("t", 0)]) == [STALE]
    h.groups.settings.set("g", consumer_fencing_policy=REVOCATION_EPOCH)
    assert h.commit("g", "a", 2, [("t", 0)]) == [NONE]


def test_a_member_without_a_revocation_epoch_is_fenced_strictly():
    """A record written by Kafka has no RevocationEpoch: -1."""
    h = bumped(REVOCATION_EPOCH)
    record = next(
        r for r in reversed(h.records) if r.key.NAME.startswith("ConsumerGroupCurrentMember") and r.key.member_id == "a"
    )
    record.value.revocation_epoch = -1
    h.groups.replay(record)
    assert h.commit("g", "a", 2, [("t", 0)]) == [STALE]
    assert h.commit("g", "a", 3, [("t", 0)]) == [NONE]


def test_partitions_refused_for_another_reason_do_not_fence_the_commit():
    h = halved(ASSIGNMENT_EPOCH)
    too_much = "x" * 5_000
    assert h.commit("g", "a", 2, [("t", 2)], metadata=too_much) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_commit_of_a_consumer_protocol_member_requires_version_9():
    h = halved(REVOCATION_EPOCH)
    for epoch in (2, 3, 4):
        assert h.commit("g", "a", epoch, [("t", 0)], version=8) == [ErrorCode.UNSUPPORTED_VERSION]


def test_a_group_with_epochs_does_not_look_at_the_instance_id_of_a_commit():
    h = halved(REVOCATION_EPOCH)
    assert h.commit("g", "a", 3, [("t", 0)], instance="unknown") == [NONE]


def test_commits_of_unknown_members_and_simple_consumers():
    h = halved(REVOCATION_EPOCH)
    assert h.commit("g", "nobody", 3, [("t", 0)]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.commit("g", "", -1, [("t", 0)]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.commit("g", "a", -1, [("t", 0)]) == [STALE]
    h.beat(member_id="a", epoch=-1)
    h.beat(member_id="b", epoch=-1)
    assert h.commit("g", "", -1, [("t", 0)]) == [NONE]
    assert h.commit("g", "m", 5, [("t", 0)]) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert h.groups.by_id.get("g").state == "Empty"


def test_classic_members_are_refused_with_illegal_generation():
    h = world(REVOCATION_EPOCH)
    a, c = Modern(h, "a"), Classic(h)
    settle(h, [a, c], 15)
    assert h.commit("g", c.id, c.generation, sorted(c.owned), version=8) == [NONE] * len(c.owned)
    assert h.commit("g", c.id, c.generation + 1, [("t", 0)]) == [ErrorCode.ILLEGAL_GENERATION]
    assert h.commit("g", c.id, c.generation - 1, [("t", 0)], version=8) == [ErrorCode.ILLEGAL_GENERATION]


def test_fetching_offsets_is_strict_under_every_policy():
    h = halved(ASSIGNMENT_EPOCH)

    def read(member_id, epoch):
        request = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        return ErrorCode(fetch_group(h.groups, request, by_id=False, require_stable=False).error_code)

    assert read("a", 3) is NONE
    assert read(None, -1) is NONE
    assert read("a", 2) is read("a", 4) is STALE
    assert read("nobody", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert read(None, 3) is read(None, 0) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_member_id_that_rejoins_gets_a_higher_epoch_than_it_left_with():
    h = world(REVOCATION_EPOCH)
    a, b = Modern(h, "a"), Modern(h, "b")
    settle(h, [a, b], 10)
    epoch = a.epoch
    a.leave()
    assert h.join_modern(member_id="a").reply.member_epoch > epoch
    for policy in FENCING_POLICIES:
        h.groups.settings.set("g", consumer_fencing_policy=policy)
        assert h.commit("g", "a", epoch, [("t", 0)]) == [STALE]


def test_a_member_that_unsubscribes_owns_its_partitions_until_its_epoch_advances():
    h = world(REVOCATION_EPOCH)
    h.join_modern(member_id="a", topics=("t", "u"))
    h.beat(member_id="a", epoch=2, topics=("t",), owned={"t": [0, 1, 2, 3]})
    member = h.member("a")
    assert (member.member_epoch, list(map(h.catalog.topic_name, member.pending_revocation))) == (2, ["u"])
    h.advance(INTERVAL_MS)
    h.beat(member_id="a", epoch=2)
    assert (h.member("a").member_epoch, h.member("a").revocation_epoch) == (3, 2)
    assert h.commit("g", "a", 2, [("u", 0)]) == [STALE]


# --- KAFKA-19779's recipe ---------------------------------------------------------------------------------------------


def storm(policy, *, by_the_recipe, rebalances=50):
    """Two members commit every 100 ms while a third comes and goes; returns (commits, failed commits).

    A commit carries the epoch known when it was sent, and is judged up to a heartbeat later. By the recipe a client commits
    when it must give up partitions, remembers the epoch, and does not commit with it again.
    """
    h = world(policy)
    h.groups.settings.set("g", consumer_assignment_interval_ms="0")
    members = [Modern(h, "a"), Modern(h, "b")]
    settle(h, members, 5)
    spent = {member.id: -1 for member in members}
    commits = failed = 0
    guest, began = None, h.consumer().group_epoch
    turn = 0
    while h.consumer().group_epoch - began < rebalances:
        turn += 1
        if turn % 6 == 0:
            if guest is None:
                guest = Modern(h, f"guest{turn}", topics=("t",) if turn % 12 else ("u",))
            else:
                guest.leave()
                guest = None
        in_flight = [
            (member.id, member.epoch, sorted(member.owned))
            for member in members
            if not (by_the_recipe and member.epoch == spent[member.id])
        ]
        for member in [*members, guest] if guest else members:
            losing = set() if member.received is None else member.owned - member.received
            if losing and member in members:
                # The revoke callback: what it gives up is committed before it says that it gave it up.
                commits += 1
                failed += any(h.commit("g", member.id, member.epoch, sorted(losing)))
                in_flight = [each for each in in_flight if each[0] != member.id] if by_the_recipe else in_flight
                spent[member.id] = member.epoch
            member.beat()
        for member_id, epoch, owned in in_flight:
            if owned:
                commits += 1
                failed += any(h.commit("g", member_id, epoch, owned))
        h.advance(100)
    return commits, failed


@pytest.mark.long
def test_rebalances_fail_no_commit_of_members_that_follow_the_recipe(capsys):
    counts = {
        (policy, by_the_recipe): storm(policy, by_the_recipe=by_the_recipe)
        for policy in FENCING_POLICIES
        for by_the_recipe in (True, False)
    }
    with capsys.disabled():
        for (policy, by_the_recipe), (commits, failed) in counts.items():
            print(
                f"\n  {policy:17} {'recipe' if by_the_recipe else 'no recipe':9} {failed:4} of {commits} commits failed",
                end="",
            )
        print()
    assert counts[REVOCATION_EPOCH, True][1] == 0
    assert counts[REVOCATION_EPOCH, False][1] > 0
    assert counts[STRICT, True][1] > 0
