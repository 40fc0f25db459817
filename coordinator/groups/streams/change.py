"""One operation on a streams group while it is decided: what it will write, and what the group will be like then.

As with consumer groups (consumer/change.py) an operation collects its records and asks here what the group *will* be. The
steps of a heartbeat, in the order in which Kafka writes their records:

    update      what the member says about itself
    topology    what the application does, from the first member that says it
    configure   the topology as the topics allow it now
    raise_epoch the group's epoch, where any of these, or the settings of the assignment, have changed
    retarget    the target, if the epoch is ahead of it: not before the first rebalance's delay is over, and not within the
                assignment interval of the last target
    reconcile   the member's next step towards the target

A group that was empty waits for the members that start at the same time (`initial_rebalance_delay_ms`): they join at the
target's epoch, without tasks, until a timer makes the first target for all of them. A crash in between ends the wait: the next
heartbeat finds the target behind. Who comes back is not made to wait for the assignment interval: it would get the epoch
in which it left.

A topology that the topics do not allow has a target, too: nobody has tasks.
"""

from typing import TYPE_CHECKING

from coordinator.groups.change import GroupChange
from coordinator.groups.consumer.subscription import topics_hash
from coordinator.groups.kinds import Kind
from coordinator.groups.modern import JOINING_EPOCH
from coordinator.groups.streams import records
from coordinator.groups.streams.configure import Configured, configure
from coordinator.groups.streams.group import (
    NO_TASK_OFFSETS,
    NO_TASKS,
    NO_TOPOLOGY_EPOCH,
    MemberState,
    Status,
    StatusCode,
    StreamsGroup,
    StreamsMember,
    TasksTuple,
    initial_delay_key,
    rebalance_key,
    session_key,
)
from coordinator.groups.streams.reconcile import reconcile
from coordinator.groups.streams.sticky import GroupSpec, MemberSpec, assign
from coordinator.groups.streams.topology import Topology
from coordinator.protocol.errors import ErrorCode, KafkaError
from coordinator.protocol.messages import Message
from coordinator.runtime.result import Result

if TYPE_CHECKING:
    from coordinator.groups.state import Groups

NUM_STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_ASSIGNMENT_TAGS = "rack.aware.assignment.tags"
"""The settings that make another target; so they are called in the log."""


class Change(GroupChange):
    """What an operation wants done, and the group as it will be."""

    __slots__ = ("cause", "group", "groups", "replaced", "settings", "statuses")

    def __init__(self, groups: "Groups", group: StreamsGroup, now_ms: int) -> None:
        super().__init__(Kind.STREAMS, group.group_id, group.group_epoch, group.rebalances, now_ms)
        self.groups = groups
        self.group = group
        self.settings = groups.settings.streams(group.group_id)
        self.replaced: StreamsMember | None = None
        """The holder of the instance id whose place the asking member takes, under another id."""
        self.cause = ""
        """Why the group's epoch must be raised; "" as long as it need not."""
        self.statuses: list[Status] = []
        """What the asking member is told."""

    def result(self, reply: Message | None) -> Result:
        if self.groups.by_id.get(self.group_id) is not self.group:
            self.groups.uncommitted_groups[self.group_id] = self.group
        return Result(reply, self.records, self.timers, facts=self.facts)

    def disarm_all_of(self, member_id: str) -> None:
        """A member is no more; so are its timers."""
        self.disarm(session_key(self.group_id, member_id))
        self.disarm(rebalance_key(self.group_id, member_id))

    def status(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(code, detail))

    # --- what the group is made of ------------------------------------------------------------------------------------

    def update(self, old: StreamsMember, new: StreamsMember, *, names_instance: bool) -> None:
        """Writes what the member says about itself. `names_instance`: the request says which static member it is of.

        Of those not every change makes a new target, so that a process may come back with another client id (Kafka 4.4).
        """
        if new is old:
            return
        self.records.append(records.member_metadata(self.group_id, new))
        if not names_instance or (
            (new.topology_epoch, new.rack_id, new.process_id) != (old.topology_epoch, old.rack_id, old.process_id)
            or new.client_tags != old.client_tags
        ):
            is_new = new.member_id not in self.group.members and self.replaced is None
            self.cause = "a member joined" if is_new else "a member changed"

    def take_topology(self, sent: Topology | None, member: StreamsMember) -> Topology:
        """The group's topology: the one sent, if it is the first. Raises INVALID_REQUEST for another than the group's."""
        known = self.group.topology
        if known is None:
            if sent is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The log has no topology of this group.")
            self.records.append(records.topology(self.group_id, sent))
            return sent
        if sent is not None and sent.epoch >= known.epoch and sent != known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        if member.topology_epoch < known.epoch:
            self.status(
                StatusCode.STALE_TOPOLOGY,
                f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {known.epoch}.",
            )
        return known

    def configure(self, topology: Topology) -> tuple[Configured, int]:
        """The topology as the topics allow it, and the metadata hash. Raises STREAMS_INVALID_TOPOLOGY.

        Made anew only if the topology's topics have changed since.
        """
        group, catalog = self.group, self.groups.catalog
        known = None if group.topology is None else group.configured
        if known is not None and group.configured_version == catalog.version:
            return known, group.metadata_hash
        new_hash = topics_hash(catalog, topology.topics)
        if new_hash != group.metadata_hash:
            self.cause = self.cause or "a topic of the topology changed"
            known = None
        group.configured = configured = known or configure(topology, catalog)
        group.configured_version = catalog.version
        return configured, new_hash

    def raise_epoch_if_due(
        self, topology: Topology, configured: Configured, metadata_hash: int, member_id: str
    ) -> None:
        """Writes the next group epoch if there is a cause."""
        group = self.group
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = self.assignment_configs()
        if not self.cause and validated != group.validated_topology_epoch:
            self.cause = "the topics became what the topology needs" if configured.is_ready else "topics are missing"
        if not self.cause and configs != group.assignment_configs:
            self.cause = "settings of the assignment changed"
        if not self.cause:
            return
        self.group_epoch += 1
        self.records.append(
            records.group_epoch(
                group,
                self.group_epoch,
                metadata_hash=metadata_hash,
                validated_topology_epoch=validated,
                assignment_configs=configs,
            )
        )
        self.begin_rebalance(self.cause, member_id)

    def assignment_configs(self) -> dict[str, str]:
        configs = {NUM_STANDBY_REPLICAS: str(self.settings.num_standby_replicas)}
        if self.settings.rack_aware_assignment_tags:
            configs[RACK_AWARE_ASSIGNMENT_TAGS] = ",".join(self.settings.rack_aware_assignment_tags)
        return configs

    # --- the target ---------------------------------------------------------------------------------------------------

    def delay_first_target(self) -> None:
        """The group is empty: the next target is made for all who come within the delay."""
        if self.group.is_empty and not self.group.is_delayed and self.settings.initial_rebalance_delay_ms > 0:
            self.group.is_delayed = True
            self.arm(initial_delay_key(self.group_id), self.settings.initial_rebalance_delay_ms)

    def retarget(self, member: StreamsMember, configured: Configured) -> tuple[int, TasksTuple]:
        """The target's epoch and the member's part of it: of a new target, if one is due."""
        group = self.group
        if group.is_delayed:
            self._delayed("initial rebalance delay")
            return group.target_epoch, NO_TASKS
        before = self._target(member.member_id) or NO_TASKS
        if group.target_epoch >= self.group_epoch:
            return group.target_epoch, before
        is_back = member.member_epoch == JOINING_EPOCH and member.member_id in group.departed
        if not is_back and group.target_stands(self.settings.assignment_interval_ms, self.now_ms):
            self._delayed("assignment interval")
            return group.target_epoch, before
        return self.group_epoch, self.new_target(configured, member)[member.member_id]

    def _target(self, member_id: str) -> TasksTuple | None:
        """The member's part of the target that there is: of the one in whose place it is, if so."""
        if self.replaced is not None and member_id not in self.group.members:
            return self.group.target.get(self.replaced.member_id)
        return self.group.target.get(member_id)

    def _delayed(self, why: str) -> None:
        self.status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}.")

    def new_target(self, configured: Configured, member: StreamsMember | None) -> dict[str, TasksTuple]:
        """Writes the target for the group's epoch; `member` as it will be, None if none changes."""
        group = self.group
        members = dict(group.members)
        if self.replaced is not None:
            del members[self.replaced.member_id]
        if member is not None:
            members[member.member_id] = member
        if configured.is_ready:
            specs = {member_id: self._spec(each) for member_id, each in members.items()}
            asked = GroupSpec(
                members=specs,
                subtopologies=configured.subtopologies,
                num_standby_replicas=self.settings.num_standby_replicas,
            )
            answer = dict(assign(asked))
        else:
            answer = dict.fromkeys(members, NO_TASKS)
        moved = 0
        for member_id, tasks in answer.items():
            if self._target(member_id) != tasks:
                self.records.append(records.target_of_member(self.group_id, member_id, tasks))
                moved += 1
        self.records.append(records.target_epoch(self.group_id, self.group_epoch, self.now_ms))
        self.target_made(self.settings.assignor_name, len(members), moved)
        return answer

    def _spec(self, member: StreamsMember) -> MemberSpec:
        """The assignor starts from what members have, not from what they were to have."""
        return MemberSpec(
            process_id=member.process_id,
            active=member.assigned.active,
            standby=member.assigned.standby,
            task_offsets=self.group.task_offsets.get(member.member_id, NO_TASK_OFFSETS).offsets,
        )

    # --- the member ---------------------------------------------------------------------------------------------------

    def reconcile(
        self, member: StreamsMember, target_epoch: int, target: TasksTuple, owned: TasksTuple | None
    ) -> StreamsMember:
        """The member's next step; written and its rebalance timer set if it is one."""
        if member.state is MemberState.UNKNOWN and (owned is None or owned):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
            )
        stepped = reconcile(member, target_epoch=target_epoch, target=target, owned=owned, group=self.group)
        if stepped is member:
            return member
        self.records.append(records.current_assignment(self.group_id, stepped))
        self._tell_step(stepped, target_epoch)
        key = rebalance_key(self.group_id, stepped.member_id)
        if stepped.state is MemberState.UNREVOKED_TASKS:
            self.arm(key, max(stepped.rebalance_timeout_ms, 0))
        elif member.state is MemberState.UNREVOKED_TASKS:
            self.disarm(key)
        return stepped

    def _tell_step(self, after: StreamsMember, target_epoch: int) -> None:
        """Keeps who the others waited for: when the last member reaches the target, the rebalance is over."""
        group = self.group
        if not after.is_reconciled_to(target_epoch) or target_epoch < self.group_epoch:
            return
        self.reached(after.member_id)
        left = group.unreconciled if target_epoch == group.target_epoch else set(group.members)
        done = {after.member_id} if self.replaced is None else {after.member_id, self.replaced.member_id}
        if left <= done:
            self.end_rebalances(target_epoch, after.member_id, len(group.members.keys() | {after.member_id}))
