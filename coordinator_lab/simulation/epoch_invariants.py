"""Invariants of the epochs that fence commits in consumer and streams groups (KAFKA-19779, KIP-1251).

- I23: every record of a member has RevocationEpoch < MemberEpoch, or no member epoch (-2) because it has left for a while. As
  long as somebody is a member without a break, under whatever member ids its instance id has, neither RevocationEpoch nor the
  assignment epoch of a partition or task falls.
- I24: a commit that was refused for an epoch behind the member's is never accepted later: not in the same group, from the same
  member id, with the same epoch and partition, while the group has the same fencing policy.

I23 reads every record ever appended to a shard's log, I24 every valid event of its event log.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH
from coordinator.groups.kinds import Kind
from coordinator.groups.settings import ASSIGNMENT_EPOCH, STRICT
from coordinator.protocol.errors import ErrorCode
from coordinator.protocol.messages import (
    CommitDecidedKey,
    CommitDecidedValue,
    ConsumerGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValue,
)
from coordinator.runtime.result import Record
from coordinator_lab.simulation.history import OnBroken

Assignment = ConsumerGroupCurrentMemberAssignmentValue | StreamsGroupCurrentMemberAssignmentValue
_METADATA = ("ConsumerGroupMemberMetadataKey", "StreamsGroupMemberMetadataKey")
_REFUSALS = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
_NOT_OWNED = -1


@dataclass(slots=True)
class _Life:
    """A member without a break, and the epochs of its records so far."""

    instance_id: str | None
    revocation_epoch: int = 0
    since: dict[tuple[Any, int], int] = field(default_factory=dict)


class EpochsOfMembers:
    """I23: follows the records of one shard's log, from its beginning."""

    def __init__(self, broken: OnBroken) -> None:
        self._broken = broken
        self._lives: dict[tuple[str, str], _Life] = {}
        """By group and member."""
        self._left: tuple[int, str, _Life] | None = None
        """The offset of the last tombstone of a member, its group, and its life."""

    def see(self, offset: int, record: Record) -> None:
        """The next record."""
        key: Any = record.key
        if key.NAME in _METADATA:
            self._see_member(offset, (key.group_id, key.member_id), record.value)
        elif isinstance(record.value, Assignment):
            self._see_epochs(offset, (key.group_id, key.member_id), record.value)

    def _see_member(self, offset: int, member: tuple[str, str], value: Any) -> None:
        if value is None:
            life = self._lives.pop(member, None)
            self._left = None if life is None else (offset, member[0], life)
            return
        life = self._lives.setdefault(member, _Life(value.instance_id))
        life.instance_id = value.instance_id
        # The record after the tombstone of the member that it replaces.
        if value.instance_id is not None and self._left is not None and self._left[:2] == (offset - 1, member[0]):
            former = self._left[2]
            if former.instance_id == value.instance_id:
                life.revocation_epoch = max(life.revocation_epoch, former.revocation_epoch)
                life.since = former.since | life.since

    def _see_epochs(self, offset: int, member: tuple[str, str], value: Assignment) -> None:
        life = self._lives.setdefault(member, _Life(None))
        lost, epoch = _revocation_epoch(value), value.member_epoch
        if epoch != LEAVING_FOR_A_WHILE_EPOCH and not 0 <= lost < epoch:
            self._fail(offset, member, f"revocation epoch {lost} and member epoch {epoch}")
        if lost < life.revocation_epoch:
            self._fail(offset, member, f"revocation epoch {lost} after {life.revocation_epoch}")
        for held, since in _held(value):
            if since < life.since.get(held, 0):
                self._fail(offset, member, f"{held} since epoch {since}, and before since {life.since[held]}")
            life.since[held] = since
        life.revocation_epoch = lost

    def _fail(self, offset: int, member: tuple[str, str], what: str) -> None:
        self._broken("I23 epochs never go back", f"record {offset}, member {member[1]} of {member[0]}: {what}")


def _revocation_epoch(value: Assignment) -> int:
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return value.revocation_epoch
    return value.active_task_revocation_epoch


def _held(value: Assignment) -> Iterator[tuple[tuple[Any, int], int]]:
    """The partitions or active tasks of a record, with their assignment epochs."""
    lists: Iterable[Any]
    if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        lists = (*value.assigned_partitions, *value.partitions_pending_revocation)
    else:
        lists = (*value.active_tasks, *value.active_tasks_pending_revocation)
    for each in lists:
        place = each.topic_id if hasattr(each, "topic_id") else each.subtopology_id
        for number, since in zip(each.partitions, each.assignment_epochs or (), strict=True):
            yield (place, number), since


def check_refusals(
    decisions: Iterable[tuple[int, CommitDecidedKey, CommitDecidedValue]],
    ends: Mapping[str, list[int]],
    broken: OnBroken,
) -> None:
    """I24. `decisions`: the events of commits, in order. `ends`: group -> state offsets at which a group of this id ended."""
    refused: dict[tuple[Any, ...], int] = {}
    for offset, key, value in decisions:
        incarnation = sum(end < value.state_offset for end in ends.get(key.group, ()))
        for topic in value.topics:
            for each in topic.partitions:
                identity = (
                    key.group, value.group_kind, incarnation, value.member_id, value.generation_id_or_member_epoch,
                    topic.topic_name, topic.topic_id, each.partition, value.policy,
                )  # fmt: skip
                if value.error_code in _REFUSALS and _is_behind(value, each.assignment_epoch):
                    refused.setdefault(identity, offset)
                elif not value.error_code and not each.error_code and identity in refused:
                    broken(
                        "I24 refused stays refused",
                        f"event {offset} accepts the commit that event {refused[identity]} refused: {identity}",
                    )


def _is_behind(value: CommitDecidedValue, since: int) -> bool:
    """Whether this partition alone has the commit refused, by an epoch behind the member's."""
    epoch = value.generation_id_or_member_epoch
    if value.group_kind == Kind.CLASSIC or not 0 <= epoch < value.member_epoch:
        return False
    is_not_its_own = since == _NOT_OWNED or since > epoch
    if is_not_its_own or value.policy == STRICT:
        return True
    return value.policy != ASSIGNMENT_EPOCH and epoch <= value.revocation_epoch
