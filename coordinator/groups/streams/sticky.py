"""The assignor "sticky", Kafka's only one for streams groups: it gives tasks, and copies of their state, to members.

Moving a task costs its new member the time to restore the state, so a task stays where it is as long as that member has no more
than its share: the number of tasks divided by the number of members, rounded up. Whenever a member has got its share, that of
the remaining members is computed again from what is left. In Kafka's order:

    active tasks   1. to the member that has it as an active one
                   2. to a member with a standby of it, or that reports to still have state of it (the most of it first)
                   3. to the process with the fewest tasks per member, and there to the member with the fewest tasks
    standby tasks  as many as `num_standby_replicas` of each stateful task; never two copies in a process, since the threads
                   of a process share its disk
                   1. to the member that had it as an active one
                   2. to a member that had it as a standby
                   3. as above; to nobody if there is no process without it

Between equals Kafka takes what a hash map or a heap yields first, and so does this one: its answers are Kafka's. Only where two
ids fall into the same bucket of such a map (Kafka: the first to be inserted, roughly in the order in which members joined) it
takes the smaller id, so that the same group always gets the same answer.

Warm-up tasks are not assigned: Kafka 4.4 does not do so either.

Kafka: `StickyTaskAssignor`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from coordinator.groups.streams.configure import ConfiguredSubtopology
from coordinator.groups.streams.member import TasksTuple
from coordinator.protocol.java import PriorityQueue, hash_map_order

_Task = tuple[str, int]
"""Subtopology id, number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """A member as the assignor sees it."""

    process_id: str
    active: Mapping[str, Iterable[int]] = field(default_factory=dict)
    """Active tasks that it holds now: subtopology id -> numbers. May name tasks that no longer exist."""
    standby: Mapping[str, Iterable[int]] = field(default_factory=dict)
    task_offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """How much of the state of tasks it has, as it last reported: subtopology id -> number -> offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """A streams group as the assignor sees it."""

    members: Mapping[str, MemberSpec]
    """By member id."""
    subtopologies: Mapping[str, ConfiguredSubtopology]
    num_standby_replicas: int = 0


def assign(group: GroupSpec) -> dict[str, TasksTuple]:
    """The tasks of each member. Kafka: `StickyTaskAssignor.assign`."""
    return _Assignment(group).made() if group.members else {}


class _Member:
    """A member and the tasks that it is given."""

    __slots__ = ("active", "count", "process", "standby")

    def __init__(self, process: "_Process") -> None:
        self.process = process
        self.active: list[_Task] = []
        self.standby: list[_Task] = []
        self.count = 0


class _Process:
    """The members that share a disk."""

    __slots__ = ("by_count", "count", "members", "tasks")

    def __init__(self) -> None:
        self.members: dict[str, _Member] = {}
        self.tasks: set[_Task] = set()
        self.count = 0
        self.by_count: PriorityQueue[_Member] | None = None
        """The members as a heap by their tasks; dropped when one that is not the first is given a task."""

    @property
    def load(self) -> float:
        return self.count / len(self.members)

    def members_by_count(self) -> PriorityQueue[_Member]:
        if self.by_count is None:
            members = [self.members[member_id] for member_id in hash_map_order(self.members)]
            self.by_count = PriorityQueue((member.count, member) for member in members)
        return self.by_count


class _Quota:
    """How many tasks a member may be given before it has its share."""

    __slots__ = ("members", "per_member", "tasks")

    def __init__(self, tasks: int, members: int) -> None:
        self.tasks, self.members = tasks, members
        self.per_member = -(-tasks // members)

    def took(self, count: int) -> None:
        """A member has `count` tasks now. If that is its share, the rest is divided among the others."""
        if count == self.per_member:
            self.members -= 1
            self.tasks -= count
            self.per_member = -(-self.tasks // self.members) if self.members else 0


class _Assignment:
    """One assignment while it is made."""

    def __init__(self, group: GroupSpec) -> None:
        self.replicas = group.num_standby_replicas
        self.tasks: list[_Task] = []
        self.stateful: list[_Task] = []
        for subtopology_id, part in group.subtopologies.items():
            tasks = [(subtopology_id, number) for number in range(part.number_of_tasks)]
            self.tasks += tasks
            if part.is_stateful:
                self.stateful += tasks
        self.active_quota = _Quota(len(self.tasks), len(group.members))
        self.quota = _Quota(len(self.tasks) + len(self.stateful) * self.replicas, len(group.members))
        self.members: dict[str, _Member] = {}
        self.processes: dict[str, _Process] = {}
        self.had_active: dict[_Task, _Member] = {}
        self.had_state: dict[_Task, list[_Member]] = {}
        """Members with a standby first; among these, and among the others, those with the most state first."""
        self._look_back(group)

    def made(self) -> dict[str, TasksTuple]:
        self._give_active()
        if self.replicas > 0:
            self._give_standby()
        return {
            member_id: TasksTuple(active=_by_subtopology(member.active), standby=_by_subtopology(member.standby))
            for member_id, member in self.members.items()
        }

    def _look_back(self, group: GroupSpec) -> None:
        candidates: dict[_Task, list[tuple[bool, int, _Member]]] = {}
        for member_id in hash_map_order(sorted(group.members)):
            spec = group.members[member_id]
            process = self.processes.get(spec.process_id)
            if process is None:
                process = self.processes[spec.process_id] = _Process()
            member = self.members[member_id] = process.members[member_id] = _Member(process)
            for task in _tasks(spec.active):
                self.had_active[task] = member
            offsets = {
                (each, number): offset for each, by in spec.task_offsets.items() for number, offset in by.items()
            }
            standby = set(_tasks(spec.standby))
            for task in standby | offsets.keys():
                candidates.setdefault(task, []).append((task not in standby, -offsets.get(task, 0), member))
        for task, found in candidates.items():
            found.sort(key=lambda candidate: candidate[:2])
            self.had_state[task] = [member for _, _, member in found]

    def _processes_by_load(self) -> PriorityQueue[_Process]:
        order = hash_map_order(self.processes, capacity=len(self.members), computed=True)
        return PriorityQueue((self.processes[each].load, self.processes[each]) for each in order)

    def _give_active(self) -> None:
        # Tasks with the same number together: they read the same partitions, and so probably are in the same place.
        left = sorted(self.tasks, key=lambda task: (task[1], task[0]))
        for had in (self.had_active.get, self._had_state):
            left = [task for task in left if not self._give_back(task, had(task))]
        processes = self._processes_by_load()
        for task in sorted(left):
            process = processes.pop()
            self._give_to_least(process, task, is_active=True)
            processes.push(process.load, process)

    def _had_state(self, task: _Task) -> _Member | None:
        return _least_loaded(self.had_state.get(task, ()))

    def _give_back(self, task: _Task, member: _Member | None) -> bool:
        if member is None or member.count >= self.active_quota.per_member:
            return False
        self._give_to(member, task, is_active=True)
        return True

    def _give_standby(self) -> None:
        left = []
        for task in sorted(self.stateful, key=lambda task: (task[1], task[0]), reverse=True):
            for given in range(self.replicas):
                member = self._takes_standby(task)
                if member is None:
                    left.append((task, self.replicas - given))
                    break
                self._give_to(member, task, is_active=False)
        processes = self._processes_by_load()
        for task, copies in sorted(left, reverse=True):
            for _ in range(copies):
                if not self._give_copy(task, processes):
                    break

    def _takes_standby(self, task: _Task) -> _Member | None:
        """A member that had the task, has room, and whose process does not have the task already."""
        member = self.had_active.get(task)
        if member is not None and task not in member.process.tasks and member.count < self.quota.per_member:
            return member
        member = _least_loaded(each for each in self.had_state.get(task, ()) if task not in each.process.tasks)
        return member if member is not None and member.count < self.quota.per_member else None

    def _give_copy(self, task: _Task, processes: PriorityQueue[_Process]) -> bool:
        """Gives it to the least loaded process that does not have the task; returns whether there is one."""
        seen = []
        found = False
        while processes and not found:
            process = processes.pop()
            found = task not in process.tasks
            seen.append(process)
        if found:
            self._give_to_least(seen[-1], task, is_active=False)
        for process in reversed(seen):
            processes.push(process.load, process)
        return found

    def _give_to(self, member: _Member, task: _Task, *, is_active: bool) -> None:
        self._give(member, task, is_active=is_active)
        member.process.by_count = None

    def _give_to_least(self, process: _Process, task: _Task, *, is_active: bool) -> None:
        if len(process.members) == 1:
            (member,) = process.members.values()
            self._give(member, task, is_active=is_active)
            return
        members = process.members_by_count()
        member = members.pop()
        self._give(member, task, is_active=is_active)
        members.push(member.count, member)

    def _give(self, member: _Member, task: _Task, *, is_active: bool) -> None:
        (member.active if is_active else member.standby).append(task)
        member.process.tasks.add(task)
        member.process.count += 1
        member.count += 1
        if is_active:
            self.active_quota.took(member.count)
        self.quota.took(member.count)


def _least_loaded(members: Iterable[_Member]) -> _Member | None:
    """The first member, unless a later one *and* its process both have less to do."""
    chosen = None
    for member in members:
        if chosen is None or (member.process.load < chosen.process.load and member.count < chosen.count):
            chosen = member
    return chosen


def _tasks(tasks: Mapping[str, Iterable[int]]) -> Iterable[_Task]:
    return ((subtopology_id, number) for subtopology_id, numbers in tasks.items() for number in numbers)


def _by_subtopology(tasks: Iterable[_Task]) -> dict[str, frozenset[int]]:
    numbers: dict[str, set[int]] = {}
    for subtopology_id, number in tasks:
        numbers.setdefault(subtopology_id, set()).add(number)
    return {subtopology_id: frozenset(numbers[subtopology_id]) for subtopology_id in sorted(numbers)}
