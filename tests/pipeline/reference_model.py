"""A reference model: the pipeline's results computed by a plain loop over the records, slow but easy to verify.

It uses no code of the pipeline. The input is records as messages, in log order; see `replay`.
"""

from dataclasses import dataclass, field
from typing import Any

from coordinator.protocol.subscription import parse_assignment
from coordinator.protocol.wire import DecodeError
from pyspark_coordinator_log.commits import topic_id_text

FENCED = {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH",
          "FENCED_INSTANCE_ID", "REBALANCE_IN_PROGRESS", "GROUP_ID_NOT_FOUND"}  # fmt: skip


@dataclass
class Member:
    epoch: int
    since_offset: int
    lost: int | None = None
    state: Any = None
    held: dict[Any, int | None] | None = None
    """(topic key, partition) -> recorded assignment epoch; None if the assignment is unknown."""


@dataclass
class Group:
    kind: str = "classic"
    epoch: int | None = None
    target: int | None = None
    members: dict[str, Member] = field(default_factory=dict)
    owned: dict[tuple[str, Any], tuple[int, int]] = field(default_factory=dict)
    """(member, partition) -> (epoch of acquisition, offset)."""
    generation: int | None = None
    contents: dict[int, Any] = field(default_factory=dict)
    """Generation -> leader, protocol and members, since the group was last deleted."""


@dataclass
class ReferenceResult:
    members: set[tuple[Any, ...]] = field(default_factory=set)
    """(group, member, epoch, from, to)"""
    ownership: set[tuple[Any, ...]] = field(default_factory=set)
    """(group, topic key, partition, member, from, to, epoch)"""
    verdicts: list[tuple[Any, ...]] = field(default_factory=list)
    """(event offset, topic key, partition, truth, member epoch, since, strict, revocation, assignment, outcome)"""
    two_owners: set[tuple[Any, ...]] = field(default_factory=set)
    """(group, topic key, partition, member, offset)"""
    epoch_order: set[tuple[Any, ...]] = field(default_factory=set)
    generation_twice: set[tuple[Any, ...]] = field(default_factory=set)
    """(group, offset)"""
    epochs: set[tuple[Any, ...]] = field(default_factory=set)
    """(group, kind, epoch, offset)"""
    groups: dict[str, Group] = field(default_factory=dict)


def replay(records: list[Any], events: list[Any]) -> ReferenceResult:
    """`records`: the state log, indexed by offset; `events`: the event log, likewise."""
    out = ReferenceResult()
    queue = sorted(enumerate(events), key=lambda each: (each[1].value.state_offset, each[0]))
    place = 0
    for offset in range(len(records) + 1):
        while place < len(queue) and queue[place][1].value.state_offset <= offset:
            _event(out, *queue[place])
            place += 1
        if offset < len(records):
            _record(out, offset, records[offset])
    for group_id, group in out.groups.items():
        for member_id, member in group.members.items():
            out.members.add((group_id, member_id, member.epoch, member.since_offset, None))
        for (member_id, pair), (epoch, since) in group.owned.items():
            out.ownership.add((group_id, *pair, member_id, since, None, epoch))
    return out


def _record(out: ReferenceResult, offset: int, record: Any) -> None:
    name, value = record.key.NAME.removesuffix("Key"), record.value
    if not hasattr(record.key, "group_id") and not hasattr(record.key, "group"):
        return
    group_id = getattr(record.key, "group_id", None) or record.key.group
    group = out.groups.setdefault(group_id, Group())
    if name == "ConsumerGroupMetadata":
        if value is not None and value.epoch != group.epoch:
            out.epochs.add((group_id, "consumer", value.epoch, offset))
        group.epoch = None if value is None else value.epoch
    elif name == "ConsumerGroupTargetAssignmentMetadata":
        group.target = None if value is None else value.assignment_epoch
    elif name == "ConsumerGroupCurrentMemberAssignment":
        member_id = record.key.member_id
        if value is None:
            _end(out, group_id, group, member_id, offset)
            return
        held = {}
        for listed in (value.assigned_partitions, value.partitions_pending_revocation):
            for topic in listed:
                epochs = topic.assignment_epochs or [None] * len(topic.partitions)
                for partition, epoch in zip(topic.partitions, epochs, strict=True):
                    held[topic_id_text(topic.topic_id), partition] = epoch
        _put(
            out,
            group_id,
            group,
            member_id,
            Member(value.member_epoch, offset, value.revocation_epoch, value.state, held),
        )
        group.kind = "consumer"
    elif name == "GroupMetadata":
        _content(out, group_id, group, offset, value)
        if value is None:
            group.contents.clear()
        _generation(out, group_id, group, offset, value)
        return
    elif name == "ClassicGroupGeneration":
        _content(out, group_id, group, offset, value)
        return
    else:
        return
    if value is None:
        return
    wrong = False
    if name == "ConsumerGroupCurrentMemberAssignment" and value.member_epoch > 0:
        wrong = value.revocation_epoch >= value.member_epoch if value.revocation_epoch >= 0 else False
        wrong |= group.target is not None and value.member_epoch > group.target
        wrong |= group.epoch is not None and value.member_epoch > group.epoch
    elif name != "ConsumerGroupCurrentMemberAssignment":
        wrong = group.target is not None and group.epoch is not None and group.target > group.epoch
    if wrong:
        out.epoch_order.add((group_id, offset))


def _content(out: ReferenceResult, group_id: str, group: Group, offset: int, value: Any) -> None:
    """No member of these histories is static, so member ids name the members."""
    if value is not None and value.generation > 0:
        content = value.leader, value.protocol, {member.member_id for member in value.members}
        if group.contents.setdefault(value.generation, content) != content:
            out.generation_twice.add((group_id, offset))


def _generation(out: ReferenceResult, group_id: str, group: Group, offset: int, value: Any) -> None:
    there = {} if value is None else {member.member_id: member for member in value.members}
    for member_id in [each for each in group.members if each not in there]:
        _end(out, group_id, group, member_id, offset)
    if value is None:
        group.generation = None
        return
    if value.generation != group.generation and value.generation > 0:
        out.epochs.add((group_id, "classic", value.generation, offset))
    group.generation, group.kind = value.generation, "classic"
    for member_id, member in there.items():
        held: dict[Any, int | None] | None
        try:
            assert value.protocol_type == "consumer"
            parts = parse_assignment(member.assignment).partitions
            held = {(topic, partition): None for topic, which in parts.items() for partition in which}
        except (DecodeError, AssertionError):
            held = None
        _put(out, group_id, group, member_id, Member(value.generation, offset, held=held))


def _put(out: ReferenceResult, group_id: str, group: Group, member_id: str, member: Member) -> None:
    old = group.members.get(member_id)
    if old is not None:
        out.members.add((group_id, member_id, old.epoch, old.since_offset, member.since_offset))
    group.members[member_id] = member
    held = member.held or {}
    for pair in [pair for who, pair in group.owned if who == member_id and pair not in held]:
        epoch, since = group.owned.pop((member_id, pair))
        out.ownership.add((group_id, *pair, member_id, since, member.since_offset, epoch))
    for pair in held:
        if (member_id, pair) not in group.owned:
            group.owned[member_id, pair] = (member.epoch, member.since_offset)
            # A classic record lists all members at once: of two owners, the second in order of ids is the later one.
            others = [
                who
                for (who, what), (_, since) in group.owned.items()
                if what == pair and who != member_id and (since < member.since_offset or group.kind == "consumer")
            ]
            if others:
                out.two_owners.add((group_id, *pair, member_id, member.since_offset))


def _end(out: ReferenceResult, group_id: str, group: Group, member_id: str, offset: int) -> None:
    member = group.members.pop(member_id, None)
    if member is None:
        return
    out.members.add((group_id, member_id, member.epoch, member.since_offset, offset))
    for pair in [pair for who, pair in group.owned if who == member_id]:
        epoch, since = group.owned.pop((member_id, pair))
        out.ownership.add((group_id, *pair, member_id, since, offset, epoch))


def _event(out: ReferenceResult, index: int, record: Any) -> None:
    if record.key.NAME != "CommitDecidedKey":
        return
    value = record.value
    group = out.groups.get(record.key.group, Group())
    is_classic = value.group_kind == 0
    member = group.members.get(value.member_id)
    epoch = value.generation_id_or_member_epoch
    for topic in value.topics:
        zero = topic.topic_id == bytes(16)
        key = topic.topic_name if is_classic or zero else topic_id_text(topic.topic_id)
        for partition in topic.partitions:
            pair = (key, partition.partition)
            error = partition.error_code or value.error_code
            owned = group.owned.get((value.member_id, pair))
            recorded = None if member is None or member.held is None else member.held.get(pair)
            truth = _truth(value, is_classic, member, epoch, owned)
            verdicts: tuple[Any, ...] = (None, None, None)
            if not is_classic and truth != "unclaimed":
                verdicts = _policies(member, epoch, owned, recorded)
            fenced = _name(value.error_code or partition.error_code) in FENCED
            outcome = "accepted" if not error else "refused" if fenced else "failed"
            now = None if member is None else member.epoch
            since = None if owned is None else owned[0]
            out.verdicts.append((index, *pair, truth, now, since, *verdicts, outcome))


def _name(code: int) -> str:
    from coordinator.protocol.errors import ErrorCode

    return ErrorCode(code).name


def _truth(value: Any, is_classic: bool, member: Member | None, epoch: int, owned: Any) -> str:
    reported = value.member_epoch
    if member is None:
        if epoch < 0:
            return "unclaimed"
        return "unknown" if is_classic and epoch == reported else "not a member"
    if epoch > member.epoch:
        return "unknown" if is_classic and epoch == reported else "ahead"
    if member.held is None:
        return "lost" if epoch < member.epoch else "unknown"
    if owned is None:
        return "unowned" if epoch == member.epoch else "lost"
    return "safe" if owned[0] <= epoch else "lost"


def _policies(member: Member | None, epoch: int, owned: Any, recorded: int | None) -> tuple[bool, bool, bool]:
    if member is None:
        return False, False, False
    now = member.epoch
    since = recorded if recorded is not None else None if owned is None else owned[0]
    had = owned is not None and since is not None and since <= epoch
    lost = -1 if member.lost is None else member.lost
    return (
        epoch == now,
        epoch == now or (epoch < now and 0 <= lost < epoch and had),
        epoch == now or (epoch < now and had),
    )
