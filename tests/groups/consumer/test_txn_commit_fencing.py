"""Which commits in transactions a consumer group accepts, under each policy, and the events of them."""

import pytest

from coordinator.groups.commit_events import Verdict
from coordinator.groups.fencing import NAMES_NO_MEMBER, NOT_OWNED, NOT_OWNED_THEN
from coordinator.groups.settings import ASSIGNMENT_EPOCH, FENCING_POLICIES, REVOCATION_EPOCH, STRICT
from coordinator.protocol.errors import ErrorCode
from tests.groups import staged_commit
from tests.groups.consumer.consumer_world import bumped, halved, world

NONE, STALE, ILLEGAL = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
KEPT, LOST = ("t", 0), ("t", 2)


def stage(h, epoch, *partitions, member="a", version=6):
    return staged_commit.stage(h, member, epoch, *partitions, version=version)


@pytest.mark.parametrize(("version", "stale"), [(3, ILLEGAL), (5, ILLEGAL), (6, STALE)])
@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_lost_partition_is_refused_at_an_earlier_epoch_with_the_versions_error(policy, version, stale):
    h = halved(policy)
    assert stage(h, 2, LOST, version=version) == stale
    assert stage(h, 2, KEPT, LOST, version=version) == stale
    assert stage(h, 4, KEPT, version=version) == stale
    assert stage(h, 3, KEPT, version=version) == NONE
    assert stage(h, 3, LOST, version=version) == NONE
    assert stage(h, 3, KEPT, member="nobody", version=version) == UNKNOWN
    assert sum(h.groups.counters.fenced.values()) == 3


def test_only_the_assignment_epoch_accepts_a_kept_partition_at_an_earlier_epoch():
    for policy, error in ((STRICT, STALE), (REVOCATION_EPOCH, STALE), (ASSIGNMENT_EPOCH, NONE)):
        assert stage(halved(policy), 2, KEPT) == error


def test_only_strict_refuses_an_epoch_from_before_a_rebalance_that_took_nothing():
    for policy, error in ((STRICT, STALE), (REVOCATION_EPOCH, NONE), (ASSIGNMENT_EPOCH, NONE)):
        assert stage(bumped(policy), 2, KEPT) == error


@pytest.mark.parametrize("policy", FENCING_POLICIES)
def test_a_commit_that_names_no_member_is_accepted_unless_one_is_required(policy):
    h = halved(policy)
    assert stage(h, -1, LOST, member="") == NONE
    assert stage(h, -1, LOST, member="", version=2) == NONE
    assert stage(h, 3, LOST, member="") == UNKNOWN
    h.groups.settings.set("g", fencing_require_member="true")
    assert stage(h, -1, LOST, member="") == UNKNOWN
    assert stage(h, 3, KEPT) == NONE
    assert h.groups.counters.fenced == {NAMES_NO_MEMBER: 1}


def test_ownership_may_be_required_here_too():
    h = halved(ASSIGNMENT_EPOCH, consumer_fencing_require_ownership="true")
    assert stage(h, 3, LOST) == STALE
    assert stage(h, 3, KEPT) == NONE
    assert stage(h, 2, LOST) == STALE
    assert h.groups.counters.fenced == {NOT_OWNED: 1, NOT_OWNED_THEN: 1}


def test_an_empty_group_accepts_commits_without_a_member_and_none_of_former_members():
    h = world(STRICT)
    assert h.join_modern("g", "a").ok
    assert h.beat("g", "a", -1).ok
    assert stage(h, -1, KEPT, member="") == NONE
    assert stage(h, -1, KEPT, member="a") == NONE
    assert stage(h, 2, KEPT, member="a") == UNKNOWN


def test_each_decision_is_emitted_with_the_verdict_of_every_policy():
    h = halved(STRICT)
    h.groups.emits_accepted = h.groups.emits_refused = True
    h.events.clear()
    accepts, refuses = Verdict.ACCEPTS, Verdict.REFUSES
    for epoch, partition, member, error, verdicts in (
        (3, KEPT, "a", NONE, (accepts, accepts, accepts)),
        (2, KEPT, "a", STALE, (refuses, refuses, accepts)),
        (2, LOST, "a", STALE, (refuses, refuses, refuses)),
        (3, KEPT, "nobody", UNKNOWN, (refuses, refuses, refuses)),
        (-1, LOST, "", NONE, (accepts, accepts, accepts)),
    ):
        assert stage(h, epoch, partition, member=member) == error
        event = h.events[-1].value
        assert (event.member_id, event.error_code, event.transactional_id, event.producer_id) == (
            member,
            error,
            "tx",
            7,
        )
        said = (event.strict_verdict, event.revocation_epoch_verdict, event.assignment_epoch_verdict)
        assert said == verdicts, (epoch, partition, member)
    assert len(h.events) == 5
