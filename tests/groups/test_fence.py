"""What a member lost within an epoch stays fenced while any member can be in that epoch, whatever becomes of the group."""

from collections.abc import Sequence
from itertools import combinations, pairwise, product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator.groups.fence import NO_FENCE, Fence
from coordinator.groups.settings import FENCING_POLICIES
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.subscription import Assignment, encode_assignment
from tests.groups.consumer.consumer_world import ChangeableSettings, ConsumerHarness
from tests.groups.harness import subscription

LOST, KEPT = ("t", 1), ("t", 2)
STALE = ErrorCode.ILLEGAL_GENERATION
MEMBERS, PARTITIONS = ("m", "n", "o"), (LOST, KEPT, ("u", 1))
HISTORIES = st.lists(
    st.dictionaries(st.sampled_from(MEMBERS), st.frozensets(st.sampled_from(PARTITIONS))), min_size=2, max_size=5
)
"""What each member has, before the first resync of an epoch and after each."""
M, N = {"m": frozenset({LOST})}, {"n": frozenset({LOST})}


def again(number: int) -> int:
    """An equal number that is another object: those of requests and records are, too."""
    return int(str(number))


def assignment(*partitions: int) -> bytes:
    return encode_assignment(Assignment({"t": partitions}, None, 1))


def resynced(
    policy: str = "revocation-epoch", *, leaders: Sequence[int] = (0, 1), claimed: Sequence[int] = ()
) -> tuple[ConsumerHarness, str, str]:
    """A classic group of static members whose follower lost partition 1 in generation 1, and kept 2.

    `leaders`: the leader's partitions since then. `claimed`: what the follower says that it owns.
    """
    h = ConsumerHarness()
    h.groups.settings = chosen = ChangeableSettings(h.config)
    chosen.set("g", consumer_fencing_policy=policy)
    leader, follower = (h.join_new_member(instance=each, protocols={"range": subscription()}) for each in ("i0", "i1"))
    h.advance(0)
    h.sync("g", leader, 1, {leader: assignment(0), follower: assignment(1, 2)}, instance="i0")
    h.sync("g", follower, 1, instance="i1")
    given = {leader: assignment(*leaders), follower: assignment(2)}
    h.sync("g", leader, 1, given, resync=1, instance="i0")
    h.join("g", follower, instance="i1", protocols={"range": subscription(owned={"t": claimed})})
    h.sync("g", follower, 1, instance="i1")
    return h, leader, follower


def turn_modern(h: ConsumerHarness, member_id: str, instance: str) -> None:
    """A process comes back under its ids with the consumer protocol and the same subscription: the epoch stays."""
    assert h.join_modern(member_id=member_id, instance=instance).ok
    assert h.consumer().group_epoch == 1


def test_the_fence_grows_within_its_epoch_and_ends_with_it():
    a, b = frozenset({LOST}), frozenset({KEPT})
    first = NO_FENCE.resynced(4, {"m": a | b, "n": frozenset()}, {"m": b, "n": a})
    assert (first.forbids("m", 4, [KEPT, LOST]), first.forbids("m", 4, [KEPT])) == (True, False)
    assert not first.forbids("n", 4, [LOST])
    assert not first.forbids("m", 5, [LOST])
    assert first.resynced(4, {"n": a}, {}).lost == {"m": a}, "nobody has it now, but another member had it"
    assert first.resynced(5, {}, {}) == Fence(5, 1, {}, {})
    assert (first.at(4), first.at(5)) == (first, NO_FENCE)
    assert first.gives_back(4, {"m": a})
    assert not first.gives_back(5, {"m": a})


@given(HISTORIES, st.integers(0, 2**31 - 1))
@example([M, N, M, N], 4)
def test_a_member_has_lost_in_an_epoch_what_another_one_had_after_it(held, epoch):
    fence = NO_FENCE
    for before, after in pairwise(held):
        fence = fence.resynced(again(epoch), before, after)
    for member_id, partition in product(MEMBERS, PARTITIONS):
        had = [partition in each.get(member_id, ()) for each in held]
        others_had = [any(partition in each[other] for other in each if other != member_id) for each in held]
        lost = any(had[then] and others_had[now] and not had[now] for then, now in combinations(range(len(held)), 2))
        assert fence.forbids(member_id, again(epoch), [partition]) == lost
        assert not fence.forbids(member_id, epoch - 1, [partition])
        assert not fence.forbids(member_id, epoch + 1, [partition])
        last_had = max((then for then, has in enumerate(had) if has), default=len(held))
        is_taken = last_had < len(held) - 1 and not any(others_had[last_had + 1 :])
        assert (partition in fence.taken.get(member_id, ())) == is_taken
    assert fence.resyncs == len(held) - 1
    assert fence.at(again(epoch)) is fence
    assert fence.at(epoch - 1) is fence.at(epoch + 1) is NO_FENCE


@given(HISTORIES)
@example([M, N, M, {}, {}])
@example([M, {}, {"m": frozenset({KEPT})}])
def test_a_conversion_adds_to_the_lost_what_was_taken_and_is_not_held(history):
    *held, kept = history
    fence = NO_FENCE
    for before, after in pairwise(held):
        fence = fence.resynced(4, before, after)
    converted = fence.converted(again(4), kept)
    for member_id, partition in product(MEMBERS, PARTITIONS):
        gone = partition in fence.taken.get(member_id, ()) and partition not in kept.get(member_id, ())
        assert converted.forbids(member_id, 4, [partition]) == (fence.forbids(member_id, 4, [partition]) or gone)
    assert (converted.taken, converted.resyncs) == ({}, fence.resyncs)


def test_what_was_taken_and_is_not_held_after_a_conversion_counts_as_lost():
    both = frozenset({LOST, KEPT})
    taken = NO_FENCE.resynced(4, {"m": both}, {})
    assert (taken.lost, taken.taken, taken.size) == ({}, {"m": both}, 2)
    assert taken.converted(4, {"m": frozenset({KEPT})}) == Fence(4, 1, {"m": frozenset({LOST})}, {})
    assert taken.converted(4, {"m": both}) == Fence(4, 1, {}, {})
    assert taken.converted(5, {}) is NO_FENCE


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_an_upgrade_keeps_what_a_resync_fenced(policy):
    h, leader, follower = resynced(policy)
    assert h.commit("g", follower, 1, [LOST]) == [STALE]
    h.join_modern()
    for _ in range(2):
        assert h.commit("g", follower, 1, [LOST]) == [STALE]
        assert h.commit("g", follower, 1, [KEPT]) == [ErrorCode.NONE]
        assert h.commit("g", leader, 1, [LOST]) == [ErrorCode.NONE]
        h.restart()


@pytest.mark.parametrize(("claimed", "error"), [((2,), STALE), ((1, 2), ErrorCode.NONE)])
def test_after_an_upgrade_what_a_resync_took_is_lost_unless_its_member_claims_it(claimed, error):
    h, _, follower = resynced(leaders=(0,), claimed=claimed)
    assert h.commit("g", follower, 1, [LOST]) == [ErrorCode.NONE]
    h.join_modern()
    assert h.commit("g", follower, 1, [LOST]) == [error]


def test_a_group_that_is_converted_to_and_fro_within_an_epoch_keeps_its_fence_and_the_number_of_resyncs():
    h, leader, follower = resynced()
    turn_modern(h, leader, "i0")
    assert h.commit("g", follower, 1, [LOST]) == [STALE]
    again = h.join("g", leader, instance="i0", protocols={"range": subscription()}, version=9)
    assert (again.reply.generation_id, h.group().kind.label) == (1, "classic")
    assert h.commit("g", follower, 1, [LOST]) == [STALE]
    assert h.group().resyncs == 1
    h.restart()
    assert h.commit("g", follower, 1, [LOST]) == [STALE]
    turn_modern(h, follower, "i1")
    assert h.commit("g", follower, 1, [LOST]) == [ErrorCode.STALE_MEMBER_EPOCH], "in the words of its protocol"


def test_a_static_member_that_leaves_for_a_while_comes_back_to_its_fence():
    h, _, follower = resynced()
    turn_modern(h, follower, "i1")
    h.beat(member_id=follower, epoch=-2, instance="i1")
    h.restart()
    assert h.join_modern(member_id=follower, instance="i1").reply.member_epoch == 1
    assert h.commit("g", follower, 1, [LOST]) == [ErrorCode.STALE_MEMBER_EPOCH]


def test_a_successor_under_another_id_has_lost_nothing():
    h, _, follower = resynced()
    turn_modern(h, follower, "i1")
    h.beat(member_id=follower, epoch=-2, instance="i1")
    assert h.join_modern(member_id="other", instance="i1").reply.member_epoch == 1
    assert h.commit("g", "other", 1, [LOST]) == [ErrorCode.NONE]


def test_the_fence_goes_when_every_member_has_left_its_epoch():
    h, leader, follower = resynced()
    h.join_modern()
    assert h.consumer().fence.lost == {follower: frozenset({LOST})}
    for each in (leader, follower):
        h.join("g", each, instance=f"i{each == follower:d}", protocols={"range": subscription()}, version=9)
    h.join_modern(member_id="n")
    assert h.consumer().fence is NO_FENCE
    h.check_held_bytes()
