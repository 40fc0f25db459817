"""From the tasks that a member holds to those that it should hold, one step at a time (KIP-1071).

A pure function, as for consumer groups: it takes a member, the target, what the member says it owns, and who holds what; it
returns the member as it is after this step. For each kind of task:

    kept         what it holds and should hold
    lost         what it holds and should not
    pending      what it should hold and does not, and nobody blocks
    unreleased   what it should hold and does not, and somebody blocks

    anything lost that it still owns    UNREVOKED_TASKS, in its old epoch, until it says that it gave them up
    nothing lost                        the target's epoch; it gets what is pending and is UNRELEASED_TASKS
                                        if something is unreleased, else STABLE

An active task is blocked by the member that has it, which may have to give it up. Every task is blocked by another member of
the same process that has it in any role: the threads of a process share their state directory.

A task that only changes its role in one member need not be given up first (since Kafka 4.4):

    active to standby       it is a standby task at once, while the active one is being given up
    standby <-> warm-up     at once
    standby, warm-up        what it has is kept until nobody has the active task any more; then it is active
      to active
    active to warm-up       only after it was given up

Epochs: an active task has the epoch of the target by which it was given, as long as it is kept. A member that gave up what it
had to is always in a later epoch than before, so that a commit from before can be distinguished from one after. So
`revocation_epoch`, the last epoch in which it had an active task that it does not have any more (KAFKA-19779), is always before
its epoch; standby and warm-up tasks commit nothing and do not count. A member that joins, or comes back after it left for a
while, owns nothing and gets an epoch in this step (epochs/entry.py).

Kafka: `CurrentAssignmentBuilder` (streams).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from coordinator.groups.epochs.entry import entry_revocation_epoch
from coordinator.groups.epochs.member import assigned_at
from coordinator.groups.streams.group import StreamsGroup
from coordinator.groups.streams.member import (
    NO_HELD_TASKS,
    NO_TASKS,
    HeldTasks,
    MemberState,
    StreamsMember,
    TaskEpochs,
    Tasks,
    TasksTuple,
)

_Set = set[tuple[str, int]]
"""Tasks, as (subtopology id, number)."""


def reconcile(
    member: StreamsMember, *, target_epoch: int, target: TasksTuple, owned: TasksTuple | None, group: StreamsGroup
) -> StreamsMember:
    """The member after this step; the same object if nothing changes.

    `owned`: what it says it owns; None if it does not say. `group` knows who holds what.
    Kafka: `CurrentAssignmentBuilder.build`.
    """
    if member.is_joining:
        return _enter(member, _advance(member, 0, target_epoch, target, NO_TASKS, group), target_epoch)
    epoch = member.member_epoch
    if member.state is MemberState.STABLE and epoch == target_epoch:
        return member
    if member.state is MemberState.UNREVOKED_TASKS:
        if not _has_given_up(owned, member.pending_revocation):
            return member
        epoch += 1
    return _advance(member, epoch, target_epoch, target, owned, group)


def _enter(before: StreamsMember, after: StreamsMember, target_epoch: int) -> StreamsMember:
    """The joining member after its first step; `after` is at the target's epoch, and says nothing about the loss of tasks."""
    held, known = after.assigned, before.revocation_epoch
    active = assigned_at(held.active, target_epoch)
    return replace(
        after,
        assigned=HeldTasks(active, held.standby, held.warmup),
        revocation_epoch=entry_revocation_epoch(known, target_epoch, before.assigned.active, (active,)),
    )


def _advance(
    member: StreamsMember,
    epoch: int,
    target_epoch: int,
    target: TasksTuple,
    owned: TasksTuple | None,
    group: StreamsGroup,
) -> StreamsMember:
    held = member.assigned
    active, standby, warmup = _set(held.active), _set(held.standby), _set(held.warmup)
    to_be_active, to_be_standby, to_be_warmup = _set(target.active), _set(target.standby), _set(target.warmup)
    process_id = member.process_id

    def others_run(task: tuple[str, int]) -> bool:
        return task not in active and group.runs_in(*task, process_id)

    def others_copy(task: tuple[str, int]) -> bool:
        return (task not in standby and group.has_standby(*task, process_id)) or (
            task not in warmup and group.has_warmup(*task, process_id)
        )

    gained_active = {task for task in to_be_active - active if group.owner(*task) is None and not others_copy(task)}
    gained_standby = {task for task in to_be_standby - standby if not others_run(task) and not others_copy(task)}
    gained_warmup = {
        task for task in to_be_warmup - warmup if not group.runs_in(*task, process_id) and not others_copy(task)
    }
    unreleased = len(gained_active) + len(gained_standby) + len(gained_warmup) < len(to_be_active - active) + len(
        to_be_standby - standby
    ) + len(to_be_warmup - warmup)
    # Tasks that only change their role in this member.
    at_once_standby = gained_standby & (active | warmup)
    at_once_warmup = gained_warmup & standby
    lost = _tasks_of(
        active - to_be_active,
        standby - to_be_standby - at_once_warmup - to_be_active,
        warmup - to_be_warmup - at_once_standby - to_be_active,
        member,
        target_epoch,
    )
    must_give_up = bool(lost) and not _has_given_up(owned, lost)
    revocation_epoch = member.revocation_epoch
    if member.pending_revocation.active or (lost.active and not must_give_up):
        revocation_epoch = member.member_epoch
    promoted = set() if must_give_up else gained_active
    kept_standby = (standby & to_be_standby) | at_once_standby | ((standby & to_be_active) - promoted)
    kept_warmup = (warmup & to_be_warmup) | at_once_warmup | ((warmup & to_be_active) - promoted)
    if must_give_up:
        return replace(
            member,
            member_epoch=epoch,
            previous_member_epoch=member.member_epoch,
            state=MemberState.UNREVOKED_TASKS,
            assigned=_tasks_of(active & to_be_active, kept_standby, kept_warmup, member, target_epoch),
            pending_revocation=lost,
            revocation_epoch=revocation_epoch,
        )
    state = MemberState.UNRELEASED_TASKS if unreleased else MemberState.STABLE
    assigned = _tasks_of(
        (active & to_be_active) | gained_active,
        kept_standby | gained_standby,
        kept_warmup | gained_warmup,
        member,
        target_epoch,
    )
    if member.member_epoch == target_epoch and member.state is state and assigned == member.assigned:
        return member
    return replace(
        member,
        member_epoch=target_epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=member.assigned if assigned == member.assigned else assigned,
        pending_revocation=NO_HELD_TASKS,
        revocation_epoch=revocation_epoch,
    )


def _has_given_up(owned: TasksTuple | None, tasks: HeldTasks) -> bool:
    """Whether it says that it owns none of the tasks, in the role that they had."""
    return owned is not None and not any(
        _set(own) & _set(lost)
        for own, lost in ((owned.active, tasks.active), (owned.standby, tasks.standby), (owned.warmup, tasks.warmup))
    )


def _set(tasks: Mapping[str, Iterable[int]]) -> _Set:
    return {(subtopology_id, number) for subtopology_id, numbers in tasks.items() for number in numbers}


def _tasks_of(active: _Set, standby: _Set, warmup: _Set, before: StreamsMember, target_epoch: int) -> HeldTasks:
    """Active tasks that the member had keep their assignment epoch; others get that of the target."""
    return HeldTasks(_with_epochs(active, before.assigned.active, target_epoch), _by_id(standby), _by_id(warmup))


def _with_epochs(tasks: _Set, before: TaskEpochs, target_epoch: int) -> TaskEpochs:
    epochs: dict[str, dict[int, int]] = {}
    for subtopology_id, number in sorted(tasks):
        epoch = before.get(subtopology_id, _NO_EPOCHS).get(number, target_epoch)
        epochs.setdefault(subtopology_id, {})[number] = epoch
    return epochs


def _by_id(tasks: _Set) -> Tasks:
    numbers: dict[str, set[int]] = {}
    for subtopology_id, number in tasks:
        numbers.setdefault(subtopology_id, set()).add(number)
    return {subtopology_id: frozenset(each) for subtopology_id, each in numbers.items()}


_NO_EPOCHS: Mapping[int, int] = {}
