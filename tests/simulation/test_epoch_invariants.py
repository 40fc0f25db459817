"""The invariants about epochs find planted violations, and nothing else, in the records and events of small histories."""

import pytest

from coordinator.groups.settings import ASSIGNMENT_EPOCH, REVOCATION_EPOCH, STRICT
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitDecidedKey,
    CommitDecidedValue,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
)
from coordinator.runtime.result import Record
from coordinator_lab.simulation.epoch_invariants import EpochsOfMembers, check_refusals

TOPIC = b"t" * 16
_Held = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
_Topic = CommitDecidedValue.TopicOffsets
_Partition = CommitDecidedValue.PartitionOffset
STALE = ErrorCode.STALE_MEMBER_EPOCH


def metadata(member_id, instance_id="i"):
    key = ConsumerGroupMemberMetadataKey("g", member_id)
    return Record(key, ConsumerGroupMemberMetadataValue(instance_id=instance_id))


def epochs(member_id, epoch, lost, since):
    held = [_Held(TOPIC, [0], [since])]
    value = ConsumerGroupCurrentMemberAssignmentValue(epoch, 0, 0, held, [], lost)
    return Record(ConsumerGroupCurrentMemberAssignmentKey("g", member_id), value)


def gone(member_id):
    return [
        Record(ConsumerGroupCurrentMemberAssignmentKey("g", member_id), None),
        Record(ConsumerGroupMemberMetadataKey("g", member_id), None),
    ]


def broken_by(records):
    """The offsets of the records that break I23."""
    found = []
    followed = EpochsOfMembers(lambda name, what: found.append(int(what.split()[1].rstrip(","))))
    for offset, record in enumerate(records):
        followed.see(offset, record)
    return found


BEGIN = [metadata("a"), epochs("a", 5, 3, 4)]


@pytest.mark.parametrize(
    ("records", "broken"),
    [
        ([epochs("a", -2, 3, 4), epochs("a", 5, 3, 4), epochs("a", 7, 6, 7)], []),
        ([epochs("a", 6, 2, 4)], [2]),
        ([epochs("a", 6, 3, 3)], [2]),
        ([epochs("a", 6, 6, 6)], [2]),
        ([epochs("a", 0, 0, 0)], [2, 2, 2]),
        ([*gone("a"), metadata("b"), epochs("b", 5, 4, 5)], []),
        ([*gone("a"), metadata("b"), epochs("b", 5, 2, 5)], [5]),
        ([*gone("a"), metadata("b"), epochs("b", 5, 4, 5), *gone("b"), metadata("a"), epochs("a", 5, 4, 4)], [9]),
        # The session of its instance expired; it is another member.
        ([*gone("a"), metadata("z", None), metadata("a"), epochs("a", 9, 0, 9)], []),
    ],
)
def test_the_epochs_of_a_member_never_go_back(records, broken):
    assert broken_by([*BEGIN, *records]) == broken


def commit(epoch, error=0, *, at=10, member_epoch=5, lost=3, since=4, policy=REVOCATION_EPOCH):
    value = CommitDecidedValue(
        state_offset=at,
        group_kind=1,
        member_id="a",
        generation_id_or_member_epoch=epoch,
        error_code=error,
        policy=policy,
        member_epoch=member_epoch,
        revocation_epoch=lost,
        topics=[_Topic("t", TOPIC, [_Partition(0, 7, error, since)])],
    )
    return CommitDecidedKey("g"), value


@pytest.mark.parametrize(
    ("first", "second", "is_broken"),
    [
        (commit(2, STALE), commit(2), True),
        (commit(2, STALE), commit(3), False),
        (commit(2), commit(2, STALE), False),
        # A former group of this id refused it.
        (commit(2, STALE), commit(2, at=30), False),
        # The epoch was ahead of a member that had left for a while.
        (commit(5, STALE, member_epoch=-1), commit(5), False),
        # Another partition of the same request was stale.
        (commit(4, STALE, policy=ASSIGNMENT_EPOCH), commit(4, policy=ASSIGNMENT_EPOCH), False),
        (commit(4, STALE, policy=STRICT), commit(4, policy=STRICT), True),
        (commit(3, STALE, since=2), commit(3, since=2), True),
        (commit(3, STALE, since=2, policy=ASSIGNMENT_EPOCH), commit(3, since=2, policy=ASSIGNMENT_EPOCH), False),
    ],
)
def test_a_refused_commit_is_never_accepted_later(first, second, is_broken):
    found = []
    check_refusals([(0, *first), (1, *second)], {"g": [20]}, lambda name, what: found.append((name, what.split()[1])))
    assert found == ([("I24 refused stays refused", "1")] if is_broken else [])
