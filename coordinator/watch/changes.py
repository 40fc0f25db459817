"""What a record of Kafka's group log changed: the group before it and after it, as the events that a server would have written.

A classic group has one record for each generation, written when its leader has assigned. It says when the members had joined
(`currentStateTimestamp`), so a rebalance is shown from then on; how long the join took is not in the log. A group with epochs
has a record for each step, so its rebalances are shown in full.

Not in the log, and so in no event: why a member went (it left, expired, or was removed), why the same members formed another
generation, refused requests, heartbeats.
"""

from typing import Any, NamedTuple, cast

from coordinator.groups.classic.group import ClassicGroup, find_classic_group
from coordinator.groups.classic.rebalance import read_subscriptions
from coordinator.groups.classic.round import Cause
from coordinator.groups.classic.round import Rebalance as Round
from coordinator.groups.classic.states import State
from coordinator.groups.epochs.group import ModernGroup
from coordinator.groups.epochs.member import LEAVING_FOR_A_WHILE_EPOCH
from coordinator.groups.epochs.soft_state import Rebalance
from coordinator.groups.events import (
    ClassicDelivery,
    Completed,
    delivered,
    event_only,
    member_joined,
    member_left,
    rebalance_started,
)
from coordinator.groups.group import waited_longest_for
from coordinator.groups.kinds import Kind
from coordinator.groups.machine import GroupMachine
from coordinator.groups.rebalance_causes import NOT_IN_KAFKAS_LOG, WENT
from coordinator.protocol.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
)
from coordinator.runtime.result import NO_LINK, Fact, Link, Record

JOINED = "a member joined"
CHANGED = "a member changed its subscription or metadata"
UNKNOWN = "the log does not say"
_METADATA = (ConsumerGroupMemberMetadataKey, ShareGroupMemberMetadataKey, StreamsGroupMemberMetadataKey)
_EPOCH = (ConsumerGroupMetadataKey, ShareGroupMetadataKey, StreamsGroupMetadataKey)
_TARGET = (
    ConsumerGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataKey,
)  # fmt: skip
_HOLDINGS = (
    ConsumerGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentKey,
)  # fmt: skip
_FIRST = 1
"""The first generation of a group."""


class Dated(NamedTuple):
    """A fact with its time (wall clock of the cluster, ms)."""

    fact: Fact
    time_ms: int


class _Seen(NamedTuple):
    """The client of a member, as its records have it; stands for the context of its request."""

    client_id: str
    client_host: str
    link: Link = NO_LINK


class Changes:
    """Replays the records of groups into a state, and says what they changed."""

    def __init__(self, groups: GroupMachine) -> None:
        self._groups = groups
        self._causes: dict[str, tuple[str, str]] = {}
        """Group with epochs -> what changed in its members since its last epoch, and in which of them."""
        self.is_live = False
        """Whether views are shown already, so that the round of a classic group must follow its record."""

    def resume_all(self) -> None:
        """The records up to now are replayed: views are shown from here on."""
        self.is_live = True
        for group_id in list(self._groups.by_id):
            self._resume(group_id)

    def replay(self, record: Record, now_ms: int) -> list[Dated]:
        """Replays a record, and returns what it changed, in the order of time. `now_ms`: of the record."""
        key: Any = record.key
        kind = type(key)
        if kind is GroupMetadataKey:
            facts = self._classic(key.group, record, now_ms)
        elif kind in _METADATA:
            facts = self._metadata(key.group_id, key.member_id, record, now_ms)
        elif kind in _EPOCH:
            facts = self._epoch(key.group_id, record, now_ms)
        elif kind in _HOLDINGS:
            facts = self._holdings(key.group_id, key.member_id, record, now_ms)
        else:
            self._groups.replay(record)
            facts = self._reached(self._modern(key.group_id), now_ms) if kind in _TARGET else []
            if self.is_live and hasattr(key, "group") and kind.NAME.startswith("ClassicGroup"):
                self._resume(key.group)
        return facts

    # --- classic groups -----------------------------------------------------------------------------------------------

    def _classic(self, group_id: str, record: Record, now_ms: int) -> list[Dated]:
        groups = self._groups
        found = find_classic_group(groups, group_id)
        before = None if found is None else found.stored
        groups.replay(record)
        value = cast(GroupMetadataValue | None, record.value)
        if value is None:
            # A group that still has members becomes a group of another kind, whose records follow.
            is_deleted = before is not None and not before.members
            return [Dated(Fact("group_deleted", {"group_id": group_id}), now_ms)] if is_deleted else []
        group = find_classic_group(groups, group_id)
        assert group is not None
        facts = _generation(groups, group, before, value, now_ms)
        if self.is_live:
            self._resume(group_id)
        return facts

    def _resume(self, group_id: str) -> None:
        """Shows a classic group as its record has it."""
        group = find_classic_group(self._groups, group_id)
        if group is None or group.stored is None:
            return
        fresh = group.without_round()
        fresh.rebalances = group.rebalances
        self._groups.place(fresh)
        fresh.resume()
        read_subscriptions(fresh)

    # --- groups with epochs -------------------------------------------------------------------------------------------

    def _modern(self, group_id: str) -> ModernGroup[Any, Any, Any] | None:
        group: Any = self._groups.by_id.get(group_id)
        return None if group is None or group.kind is Kind.CLASSIC else group

    def _member(self, group_id: str, member_id: str) -> Any:
        group = self._modern(group_id)
        return None if group is None else group.members.get(member_id)

    def _metadata(self, group_id: str, member_id: str, record: Record, now_ms: int) -> list[Dated]:
        before = self._member(group_id, member_id)
        self._groups.replay(record)
        group, now = self._modern(group_id), self._member(group_id, member_id)
        if group is None or (before is None and now is None):
            return []
        if now is None:
            self._causes[group_id] = WENT, member_id
            for rebalance in group.soft.rebalances:
                if rebalance.ended_ms is None:
                    rebalance.stop_waiting_for(member_id, now_ms)
            fact = member_left(
                group_id, group.kind, member_id, before.instance_id, before.member_epoch, NOT_IN_KAFKAS_LOG
            )
            return [Dated(fact, now_ms), *self._reached(group, now_ms)]
        if before is None:
            self._causes[group_id] = JOINED, member_id
            return [_joined(group_id, group.kind, now, group.group_epoch + 1, now_ms)]
        if before != now:
            self._causes[group_id] = CHANGED, member_id
        return []

    def _epoch(self, group_id: str, record: Record, now_ms: int) -> list[Dated]:
        before = self._modern(group_id)
        epoch_before = -1 if before is None else before.group_epoch
        self._groups.replay(record)
        group = self._modern(group_id)
        if group is None or record.value is None:
            self._causes.pop(group_id, None)
            return [Dated(Fact("group_deleted", {"group_id": group_id}), now_ms)] if before is not None else []
        if group.group_epoch <= epoch_before:
            return []
        cause, member_id = self._causes.pop(group_id, (UNKNOWN, ""))
        rebalance = Rebalance(
            epoch=group.group_epoch, cause=cause, member_id=member_id, started_ms=now_ms, reason=NOT_IN_KAFKAS_LOG
        )
        group.soft.rebalances.append(rebalance)
        return [_started(group_id, group.kind, group.group_epoch, cause, member_id, now_ms)]

    def _holdings(self, group_id: str, member_id: str, record: Record, now_ms: int) -> list[Dated]:
        before = self._member(group_id, member_id)
        self._groups.replay(record)
        group, now = self._modern(group_id), self._member(group_id, member_id)
        if group is None or now is None or record.value is None:
            return []
        facts = []
        was_away = before is not None and before.member_epoch == LEAVING_FOR_A_WHILE_EPOCH
        if now.member_epoch == LEAVING_FOR_A_WHILE_EPOCH:
            if before is not None and not was_away:
                epoch = LEAVING_FOR_A_WHILE_EPOCH
                facts.append(Dated(member_left(group_id, group.kind, member_id, now.instance_id, epoch, None), now_ms))
            return facts
        if was_away:
            facts.append(_joined(group_id, group.kind, now, now.member_epoch, now_ms))
        committer: Any = group.find_committer(member_id, self._groups.catalog) if group.has_offsets else now
        if committer is not None:
            facts += [Dated(fact, now_ms) for fact in delivered(self._groups, group, committer)]
        if now.is_reconciled_to(group.target_epoch):
            for rebalance in group.soft.rebalances:
                if rebalance.ended_ms is None and rebalance.epoch <= now.member_epoch:
                    rebalance.stop_waiting_for(member_id, now_ms)
        return [*facts, *self._reached(group, now_ms)]

    def _reached(self, group: ModernGroup[Any, Any, Any] | None, now_ms: int) -> list[Dated]:
        """Ends the rebalances that are over."""
        if group is None:
            return []
        pending = [each for each in group.soft.rebalances if each.ended_ms is None]
        for rebalance in pending:
            if rebalance.assigned_ms is None and rebalance.epoch <= group.target_epoch:
                rebalance.assigned_ms = now_ms
        if not pending or group.is_rebalancing:
            return []
        facts = []
        for rebalance in pending:
            rebalance.ended_ms = now_ms
            event = Completed(
                group.group_id, group.kind, rebalance.epoch,
                duration_ms=now_ms - rebalance.started_ms, cause=rebalance.cause, member_id=rebalance.member_id,
                members=len(group.members), waits=rebalance.waits, delay_ms=rebalance.delay_ms,
            )  # fmt: skip
            facts.append(Dated(event_only(event), now_ms))
        fields = {
            "group_id": group.group_id,
            "kind": group.kind.label,
            "epoch": group.target_epoch,
            "waited_ms": now_ms - pending[0].started_ms,
            "waited_longest_for": waited_longest_for(pending[0].waits),
            "members": len(group.members),
        }
        return [*facts, Dated(Fact("rebalance_ended", fields), now_ms)]


def _joined(group_id: str, kind: Kind, member: Any, epoch: int, now_ms: int) -> Dated:
    seen: Any = _Seen(member.client_id, member.client_host)
    return Dated(member_joined(group_id, kind, member.member_id, member.instance_id, seen, epoch), now_ms)


def _started(group_id: str, kind: Kind, epoch: int, cause: str, member_id: str, now_ms: int) -> Dated:
    fields = {"group_id": group_id, "kind": kind.label, "epoch": epoch, "cause": cause, "member_id": member_id}
    event = rebalance_started(group_id, kind, epoch, cause, member_id, NOT_IN_KAFKAS_LOG)
    return Dated(Fact("rebalance_started", fields, event), now_ms)


def _generation(
    groups: GroupMachine, group: ClassicGroup, before: GroupMetadataValue | None, value: GroupMetadataValue, now_ms: int
) -> list[Dated]:
    """What the record of a generation says, after it was replayed."""
    group_id, kind = group.group_id, Kind.CLASSIC
    old = {} if before is None else {each.member_id: each for each in before.members}
    new = {each.member_id: each for each in value.members}
    is_new_generation = before is None or before.generation != value.generation
    last_ms = group.rebalances[-1].ended_ms if group.rebalances else None
    started_ms = min(now_ms, max(value.current_state_timestamp, last_ms or 0)) if is_new_generation else now_ms
    if value.current_state_timestamp < 0:
        started_ms = now_ms
    # Where compaction has removed the records before, the members may have been there for long.
    is_known = before is not None or value.generation <= _FIRST
    came = [each for each in value.members if each.member_id not in old] if is_known else []
    holders = {each.group_instance_id for each in value.members} - {None}
    went = [each for each in old.values() if each.member_id not in new and each.group_instance_id not in holders]
    facts = [
        Dated(
            member_left(
                group_id, kind, each.member_id, each.group_instance_id, value.generation - 1, NOT_IN_KAFKAS_LOG
            ),
            started_ms,
        )
        for each in went
    ]
    for each in came:
        seen: Any = _Seen(each.client_id, each.client_host)
        joined = member_joined(group_id, kind, each.member_id, each.group_instance_id, seen, value.generation)
        facts.append(Dated(joined, started_ms))
    if not is_new_generation or (before is None and not new):
        return facts  # a group begins without members
    changed = [each for each in value.members if _has_changed(old.get(each.member_id), each)]
    if came:
        cause, member_id = JOINED, came[0].member_id
    elif went:
        cause, member_id = WENT, went[0].member_id
    elif changed:
        cause, member_id = CHANGED, changed[0].member_id
    else:
        cause, member_id = UNKNOWN, ""
    facts.append(_started(group_id, kind, value.generation, cause, member_id, started_ms))
    facts += [
        Dated(
            event_only(ClassicDelivery(group_id, each.member_id, value.generation, each.assignment, groups.catalog)),
            now_ms,
        )
        for each in value.members
    ]
    completed = Completed(
        group_id, kind, value.generation,
        duration_ms=now_ms - started_ms, cause=cause, member_id=member_id, members=len(new), waits={},
    )  # fmt: skip
    facts.append(Dated(event_only(completed), now_ms))
    rebalance = Round(
        Cause(cause, member_id, NOT_IN_KAFKAS_LOG),
        State.STABLE if old else State.EMPTY,
        0 if before is None else before.generation,
        started_ms,
        formed_ms=started_ms,
        ended_ms=now_ms,
        leader_id=value.leader or "",
        completed=True,
    )
    group.rebalances.append(rebalance)
    return facts


def _has_changed(before: Any, now: Any) -> bool:
    return before is not None and before.subscription != now.subscription
