"""Members of streams groups (KIP-1071): threads of an application with a repartition topic and state stores.

The same checks apply as for consumers (consumer_clients.py), with active tasks instead of partitions. Task n of a subtopology
is the only reader of partition n of its source topic, so a task is represented by that partition here. It has one owner at
a time (I8), a member's epoch only grows (I7), and a member commits only for its own tasks (I9). Members keep and report the
standby tasks that they are assigned. That no process has a task twice can only be seen inside the server
(derived_state_invariants.py).

The topology's internal topics do not exist at first: the server must create them, on a disk that may fail.
"""

from typing import Any

from coordinator.protocol.messages import Message, StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from coordinator_lab.simulation.clients import ORDERS, RETRIABLE, TOPICS, World
from coordinator_lab.simulation.consumer_clients import JOINING, ConsumerMember, Ownership, Partition
from coordinator_lab.simulation.wire import NoResponse

_Topology = StreamsGroupHeartbeatRequest.Topology
_Subtopology = StreamsGroupHeartbeatRequest.Subtopology
_TopicInfo = StreamsGroupHeartbeatRequest.TopicInfo
_TaskIds = StreamsGroupHeartbeatRequest.TaskIds
_TaskOffset = StreamsGroupHeartbeatRequest.TaskOffset
THREADS = 2
"""Members (threads) per process; they share the state directory."""


class StreamsMember(ConsumerMember):
    """A thread of a Kafka Streams application with `group.protocol=streams`."""

    def __init__(self, world: World, group_id: str, number: int, ownership: Ownership) -> None:
        super().__init__(world, group_id, number, ownership)
        self.process_id = f"{group_id}-p{number // THREADS}"
        self.sources = {"0": ORDERS, "1": f"{group_id}-repartition"}
        """Subtopology id -> its source topic."""
        self.subtopologies = {topic: subtopology_id for subtopology_id, topic in self.sources.items()}

    def _rejoin(self) -> None:
        super()._rejoin()
        self.standby: dict[str, list[int]] = {}
        self.reports = False

    @property
    def wanted(self) -> set[Partition]:
        return {(topic, index) for topic in self.sources.values() for index in range(TOPICS[ORDERS])}

    # --- the protocol -------------------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        history = self.world.history
        # Revoked tasks are given up before the heartbeat reports it.
        self.positions = {each: at for each, at in self.positions.items() if each in self.assigned}
        owned_then, joins = set(self.positions), self.epoch == JOINING
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance_id
        )
        if joins or self.sends_everything:
            request.rebalance_timeout_ms = self.world.plan.rebalance_ms
            request.process_id = self.process_id
        if joins:
            request.topology = self._topology()
        if joins or self.sends_everything or self.must_acknowledge:
            request.active_tasks = self._owned_tasks()
            request.standby_tasks = [_TaskIds(each, numbers) for each, numbers in sorted(self.standby.items())]
            request.warmup_tasks = []
        if self.reports:
            request.task_offsets = [
                _TaskOffset(self.subtopologies[topic], index, at) for (topic, index), at in self.positions.items()
            ]
        member_id, asked = self.member_id, history.tick()
        response = await self.call(request, 1)
        if response.error_code:
            self._on_error("StreamsGroupHeartbeat", response.error_code)
            return
        if not joins:
            self.ownership.accepted(self.group_id, member_id, owned_then, asked, "heartbeat")
        self.ownership.epoch_received(self.group_id, member_id, response.member_epoch, asked)
        self.sends_everything = self.must_acknowledge = self.reports = False
        self._take_epoch(response.member_epoch)
        if response.active_tasks is not None:
            await self._apply_assignment(response, asked)
        else:
            self.world.hunt.in_epoch(self.group_id, member_id, self.epoch, asked)
        self.stable = not self.must_acknowledge

    async def _apply_assignment(self, response: Any, asked: int) -> None:
        standby = {each.subtopology_id: each.partitions for each in response.standby_tasks}
        self.assigned = {
            (self.sources[each.subtopology_id], index) for each in response.active_tasks for index in each.partitions
        }
        self.world.hunt.informed(self.group_id, self.member_id, self.commit_version, self.epoch, self.assigned, asked)
        self.must_acknowledge = self.assigned != set(self.positions) or standby != self.standby
        self.standby = standby
        gained = self.assigned - self.positions.keys()
        if not gained:
            return
        self.ownership.granted(self.group_id, self.member_id, gained)
        self.positions |= dict.fromkeys(sorted(gained), 0)
        self.world.event(f"{self.name} {self.member_id[:4]} {self.epoch}: has {len(self.assigned)} tasks")
        await self._read()

    def _owned_tasks(self) -> list[_TaskIds]:
        owned: dict[str, list[int]] = {}
        for topic, index in sorted(self.positions):
            owned.setdefault(self.subtopologies[topic], []).append(index)
        return [_TaskIds(each, numbers) for each, numbers in sorted(owned.items())]

    def _topology(self) -> _Topology:
        repartition = self.sources["1"]
        first = _Subtopology(subtopology_id="0", source_topics=[ORDERS], repartition_sink_topics=[repartition])
        second = _Subtopology(
            subtopology_id="1",
            repartition_source_topics=[_TopicInfo(repartition)],
            state_changelog_topics=[_TopicInfo(f"{self.group_id}-changelog")],
        )
        return _Topology(1, [first, second])

    # --- rare events --------------------------------------------------------------------------------------------

    def _change_subscription(self) -> None:
        self.reports = True

    def _leaving(self, epoch: int) -> Message:
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )

    # --- convergence --------------------------------------------------------------------------------------

    async def describe(self) -> Any:
        """The described group. Raises NoResponse."""
        response = await self.call(StreamsGroupDescribeRequest([self.group_id]), 1)
        if response.groups[0].error_code in RETRIABLE:
            raise NoResponse
        return response.groups[0]
