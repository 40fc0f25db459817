"""One operation on a streams group while it is decided (epochs/update.py), and the steps of its heartbeat.

The steps, in the order in which Kafka writes their records:

    update      the member's metadata
    topology    the application's topology, from the first member that sends it
    configure   the topology as the topics allow it now
    raise_epoch the group's epoch, where any of these, or the settings of the assignment, have changed
    retarget    the target, if the epoch is ahead of it: not before the first rebalance's delay is over, and not within the
                assignment interval of the last target
    reconcile   the member's next step towards the target

A group that was empty waits for the members that start at the same time (`initial_rebalance_delay_ms`): they join at the
target's epoch, without tasks, until a timer makes the first target for all of them. A crash in between ends the wait: the next
heartbeat finds the target behind.

A topology that the topics do not allow has a target, too: nobody has tasks.

Kafka: the second half of `GroupMetadataManager.streamsGroupHeartbeat`, with `maybeUpdateTargetAssignment` and
`maybeReconcile`; `TargetAssignmentBuilder` (streams).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from coordinator.groups.epochs.metadata_hash import topics_hash
from coordinator.groups.epochs.update import MemberTimers, ModernUpdate, RecordTypes
from coordinator.groups.held_bytes import PARTITION_BYTES
from coordinator.groups.kinds import Kind
from coordinator.groups.state import Groups
from coordinator.groups.streams import records
from coordinator.groups.streams.configure import Configured, configure
from coordinator.groups.streams.group import StreamsGroup, initial_delay_key, rebalance_key, session_key
from coordinator.groups.streams.member import NO_TASKS, NO_TOPOLOGY_EPOCH, MemberState, StreamsMember, TasksTuple
from coordinator.groups.streams.reconcile import reconcile
from coordinator.groups.streams.soft_state import NO_TASK_OFFSETS
from coordinator.groups.streams.status import Status, StatusCode
from coordinator.groups.streams.sticky import GroupSpec, MemberSpec, assign
from coordinator.groups.streams.topology import Topology
from coordinator.protocol.errors import ErrorCode, KafkaError

NUM_STANDBY_REPLICAS = "num.standby.replicas"
RACK_AWARE_ASSIGNMENT_TAGS = "rack.aware.assignment.tags"
"""The settings that change the target, by their names in the log."""


class StreamsUpdate(ModernUpdate[StreamsGroup, StreamsMember, TasksTuple]):
    """The update of one streams group."""

    __slots__ = ("cause", "settings", "statuses")

    KIND = Kind.STREAMS
    UNITS = "tasks"
    NO_PART = NO_TASKS
    RECORDS: ClassVar[RecordTypes] = records
    TIMERS = MemberTimers(session_key, rebalance_key)

    def __init__(self, groups: Groups, group: StreamsGroup, now_ms: int) -> None:
        super().__init__(groups, group, now_ms)
        self.settings = groups.settings.streams(group.group_id)
        self.cause = ""
        """Why the group's epoch must be raised; "" as long as it need not be."""
        self.statuses: list[Status] = []
        """The statuses in the answer."""

    def status(self, code: StatusCode, detail: str) -> None:
        self.statuses.append(Status(code, detail))

    # --- members, topology, epoch -------------------------------------------------------------------------------------

    def update(self, old: StreamsMember, new: StreamsMember, *, names_instance: bool) -> None:
        """Writes the member's metadata if they have changed. `names_instance`: the request has an instance id.

        Not every change of a static member makes a new target: a process may come back with another client id (Kafka 4.4).
        Kafka: `GroupMetadataManager.hasStreamsMemberMetadataChanged`.
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
        """The group's topology; the one sent, if it is the first.

        Raises INVALID_REQUEST for a topology that differs from the group's, UNKNOWN_SERVER_ERROR if the log has none.
        """
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

        Configured again only if a topic of the topology has changed since.
        """
        group, soft, catalog = self.group, self.group.soft, self.groups.catalog
        known = None if group.topology is None else soft.configured
        if known is not None and soft.configured_version == catalog.version:
            return known, group.metadata_hash
        new_hash = topics_hash(catalog, topology.topics)
        if new_hash != group.metadata_hash:
            self.cause = self.cause or "a topic of the topology changed"
            known = None
        configured = known or self._configure(topology)
        soft.configured = configured
        soft.configured_version = catalog.version
        return configured, new_hash

    def _configure(self, topology: Topology) -> Configured:
        """Counts the tasks before anything is made of them.

        Raises STREAMS_INVALID_TOPOLOGY, GROUP_MAX_SIZE_REACHED, COORDINATOR_NOT_AVAILABLE.
        """
        configured = configure(topology, self.groups.catalog)
        tasks = sum(
            part.number_of_tasks * (1 + (self.settings.num_standby_replicas if part.is_stateful else 0))
            for part in configured.subtopologies.values()
        )
        tasks_max = self.groups.config.limit_group_tasks
        if tasks > tasks_max:
            self.groups.counters.count_too_large("limit.group.tasks")
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The topology would have {tasks} tasks; limit.group.tasks allows {tasks_max}.",
            )
        self.groups.fence_derived(self.group, PARTITION_BYTES * tasks)
        return configured

    def raise_epoch_if_due(
        self, topology: Topology, configured: Configured, metadata_hash: int, member: StreamsMember
    ) -> None:
        """Writes the next group epoch if there is a cause."""
        group = self.group
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY_EPOCH
        configs = self.assignment_configs()
        if not self.cause and validated != group.validated_topology_epoch:
            self.cause = "the topics became what the topology needs" if configured.is_ready else "topics are missing"
        if not self.cause and configs != group.assignment_configs:
            self.cause = "settings of the assignment changed"
        if not self.cause and self.needs_another_epoch(member):
            self.cause = "a member came back that had lost tasks in this epoch"
        if self.cause:
            self._raise_epoch(metadata_hash, validated, configs, self.cause, member.member_id)

    def _raise_epoch(
        self,
        metadata_hash: int,
        validated: int,
        configs: Mapping[str, str],
        cause: str,
        member_id: str,
        reason: str | None = None,
    ) -> None:
        self.group_epoch += 1
        record = records.group_epoch(
            self.group,
            self.group_epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated,
            assignment_configs=configs,
        )
        self.records.append(record)
        self.begin_rebalance(cause, member_id, reason)

    def _raise_epoch_without(self, members: Sequence[StreamsMember], cause: str, reason: str | None = None) -> None:
        group = self.group
        self._raise_epoch(
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
            cause,
            members[0].member_id if members else "",
            reason,
        )

    def assignment_configs(self) -> dict[str, str]:
        configs = {NUM_STANDBY_REPLICAS: str(self.settings.num_standby_replicas)}
        if self.settings.rack_aware_assignment_tags:
            configs[RACK_AWARE_ASSIGNMENT_TAGS] = ",".join(self.settings.rack_aware_assignment_tags)
        return configs

    # --- the target ---------------------------------------------------------------------------------------------------

    def delay_first_target(self) -> None:
        """The group is empty: the next target is made for all members that come within the delay."""
        soft, delay_ms = self.group.soft, self.settings.initial_rebalance_delay_ms
        if self.group.is_empty and not soft.is_delayed and delay_ms > 0:
            soft.is_delayed = True
            self.arm(initial_delay_key(self.group_id), delay_ms)

    def retarget(self, member: StreamsMember, configured: Configured) -> tuple[int, TasksTuple]:
        """The target's epoch and the member's part of it; of a new target, if one is due."""
        group = self.group
        if group.soft.is_delayed:
            self._delayed("initial rebalance delay")
            return group.target_epoch, NO_TASKS
        before = self.part_before(member.member_id) or NO_TASKS
        if group.target_epoch >= self.group_epoch:
            return group.target_epoch, before
        if self.must_keep_target(member, self.settings.assignment_interval_ms):
            self._delayed("assignment interval")
            return group.target_epoch, before
        return self.group_epoch, self.new_target(configured, member)[member.member_id]

    def _delayed(self, why: str) -> None:
        self.status(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}.")

    def new_target(self, configured: Configured, member: StreamsMember | None) -> dict[str, TasksTuple]:
        """Writes the target for the group's epoch; `member` as it will be, None if none changes."""
        members = dict(self.group.members)
        if self.replaced is not None:
            del members[self.replaced.member_id]
        if member is not None:
            members[member.member_id] = member
        if configured.is_ready:
            spec = GroupSpec(
                members={member_id: self._assignor_input(each) for member_id, each in members.items()},
                subtopologies=configured.subtopologies,
                num_standby_replicas=self.settings.num_standby_replicas,
            )
            target = dict(assign(spec))
        else:
            target = dict.fromkeys(members, NO_TASKS)
        self.write_target(target, self.settings.assignor_name)
        return target

    def _assignor_input(self, member: StreamsMember) -> MemberSpec:
        """The assignor starts from the tasks that members have, not from those that they should have."""
        return MemberSpec(
            process_id=member.process_id,
            active=member.assigned.active,
            standby=member.assigned.standby,
            task_offsets=self.group.soft.task_offsets.get(member.member_id, NO_TASK_OFFSETS).offsets,
        )

    # --- the member ---------------------------------------------------------------------------------------------------

    def reconcile(
        self, member: StreamsMember, target_epoch: int, target: TasksTuple, owned: TasksTuple | None
    ) -> StreamsMember:
        """The member after its next step, which is written if there is one. Raises FENCED_MEMBER_EPOCH."""
        if member.state is MemberState.UNKNOWN and (owned is None or owned):
            raise self.unknown_state()
        stepped = reconcile(member, target_epoch=target_epoch, target=target, owned=owned, group=self.group)
        if stepped is not member:
            self.write_step(member, stepped, target_epoch)
        return stepped
