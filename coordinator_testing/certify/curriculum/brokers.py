"""A server of three brokers (`serve --nodes 3`): coordinators and leaders that move between them, and brokers that go down.

Few of these events need a rule: the old broker answers as Kafka does, and the client has to find the new one. A broker is the
same for all groups, so these events are alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from coordinator.operations.client import Client, refuse_error
from coordinator.protocol.messages import AlterPartitionReassignmentsRequest, FindCoordinatorRequest
from coordinator_testing.certify.case import Truncation
from coordinator_testing.certify.event import PROTOCOLS, Allows, NotApplicable, Protocol, Source, event
from coordinator_testing.certify.judge.entries import rows
from coordinator_testing.certify.programs import now_ms
from coordinator_testing.certify.records import ANSWERED_WITHIN_S
from coordinator_testing.certify.stage import Stage
from coordinator_testing.control import NotReached

BROKERS = 3
BOTH: tuple[Protocol, ...] = ("classic", "consumer")
_SEED = 1
"""The broker whose address the instances were given: it stays up, so that they can begin again."""

_LOST = 8
"""The records of each partition that an unclean election loses: two seconds of the stream."""
_OVERTAKES = 4
"""By so many records the log is longer than before when the instances see it again."""
_ASKED_FOR_POSITIONS = ("OffsetForLeaderEpoch", "ListOffsets")
_NOTICED_WITHIN_S = 20.0

_FIND_AGAIN = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.markCoordinatorUnknown",
    "NOT_COORDINATOR: the coordinator is looked up again, and membership goes on",
)
_LOADED = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.onLoaded",
    "a group that was preparing a rebalance goes on with it, and the sessions of all members begin again",
)
_EPOCHS = Source(
    "KIP-320", "FENCED_LEADER_EPOCH: refresh the metadata and validate the position with OffsetForLeaderEpoch"
)
_TRUNCATED = Source(
    "SubscriptionState.maybeCompleteValidation",
    "a position beyond the end of its epoch goes back to that end if there is a reset policy; without one poll raises "
    "LogTruncationException",
)
_LEADER = Source(
    "KIP-951, FetchCollector.handleInitializeErrors",
    "NOT_LEADER_OR_FOLLOWER: take the leader that the answer names, or refresh the metadata; the position stays",
)


@event(
    "coordinator-moves-to-another-broker",
    protocols=PROTOCOLS,
    happens="Another broker becomes the group's coordinator while the group is stable; the old one answers NOT_COORDINATOR.",
    right_client="finds the new coordinator, and goes on there as the member that it was",
    provoked="POST /v1/brokers/{id}/lead of the group",
    sources=(_FIND_AGAIN, _LOADED),
    allows=Allows(rebalances=0),
    is_alone=True,
    brokers=BROKERS,
)
async def coordinator_moves(stage: Stage) -> None:
    await _move_coordinator(stage)
    await stage.stable()
    await stage.progress()


@event(
    "coordinator-moves-while-joining",
    protocols=("classic",),
    happens="Another broker becomes the coordinator while members wait in JoinGroup; they get NOT_COORDINATOR.",
    right_client="joins again at the new coordinator, with the member id that it has",
    provoked="SIGSTOP of a follower, a forced rebalance, the others join; the coordinator moves; SIGCONT",
    sources=(_FIND_AGAIN, _LOADED),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
    brokers=BROKERS,
)
async def coordinator_moves_while_joining(stage: Stage) -> None:
    follower = await stage.follower()
    stage.pause(follower)
    await stage.rebalance()
    await stage.joined(len(stage.instances) - 1)
    await _move_coordinator(stage)
    stage.resume(follower)
    await stage.stable()


@event(
    "coordinator-moves-before-the-assignment",
    protocols=("classic",),
    happens="Another broker becomes the coordinator when members know the generation and the leader has not assigned.",
    right_client="sends SyncGroup again, or joins again, at the new coordinator",
    provoked="a rule holds each SyncGroup during a forced rebalance; the coordinator moves; the rule is cleared",
    sources=(_FIND_AGAIN, _LOADED),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
    brokers=BROKERS,
)
async def coordinator_moves_before_the_assignment(stage: Stage) -> None:
    fault = await stage.fault(api="SyncGroup", hold="request", times=len(stage.instances))
    await stage.rebalance()
    await stage.held(fault, len(stage.instances))
    await _move_coordinator(stage)
    await fault.clear()
    await stage.stable()


@event(
    "coordinator-moves-after-the-assignment",
    protocols=("classic",),
    happens="Another broker becomes the coordinator when the assignment is stored and no member has received it.",
    right_client="goes on with the assignment that arrives, at the new coordinator",
    provoked="a rule holds each answer to SyncGroup during a forced rebalance; the coordinator moves; the rule is cleared",
    sources=(_FIND_AGAIN, _LOADED),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
    brokers=BROKERS,
)
async def coordinator_moves_after_the_assignment(stage: Stage) -> None:
    fault = await stage.fault(api="SyncGroup", hold="answer", times=len(stage.instances))
    await stage.rebalance()
    await stage.held(fault, len(stage.instances))
    await _move_coordinator(stage)
    await fault.clear()
    await stage.stable()


@event(
    "coordinator-broker-down",
    protocols=PROTOCOLS,
    happens="The broker that coordinates the group and leads partitions goes down, and is back 5 s later.",
    right_client="finds the new coordinator and the new leaders, and goes on as the member that it was",
    provoked="the coordinator moves to a broker that no instance was given; POST /v1/brokers/{id}/down, then up",
    sources=(_FIND_AGAIN, _LOADED, _LEADER),
    allows=Allows(rebalances=0, stall_s=35),
    is_alone=True,
    brokers=BROKERS,
)
async def coordinator_broker_down(stage: Stage) -> None:
    coordinator = await _coordinator(stage)
    if coordinator == _SEED:
        coordinator = await _move_coordinator(stage)
        await stage.progress()
    stage.note(f"broker {coordinator} goes down")
    await stage.control.broker(coordinator).down()
    await asyncio.sleep(5.0)
    stage.note(f"broker {coordinator} is up")
    await stage.control.broker(coordinator).up()
    await stage.stable()
    await stage.progress()


@event(
    "leaders-move",
    protocols=(*BOTH, "share"),
    happens="Another broker becomes the leader of each partition, twice: the old one answers NOT_LEADER_OR_FOLLOWER, and the "
    "epoch that a client knows is FENCED_LEADER_EPOCH.",
    right_client="finds the new leaders, and reads on from its positions",
    provoked="POST /v1/brokers/{id}/lead of each partition of the input and the output topic, twice",
    sources=(_LEADER, _EPOCHS),
    allows=Allows(rebalances=0),
    is_alone=True,
    brokers=BROKERS,
)
async def leaders_move(stage: Stage) -> None:
    for _ in range(2):
        for topic in filter(None, (stage.topic, stage.output_topic)):
            stage.note(f"the leaders of {topic} move")
            for partition, leader in (await asyncio.to_thread(_leaders, stage, topic)).items():
                await stage.control.broker(_next(leader)).lead(topic=topic, partition=partition)
        await stage.reads_on()


@event(
    "log-truncated",
    protocols=BOTH,
    happens="An unclean election: the new leader of each partition lacks its last eight records, which are lost though they "
    "were acknowledged and committed. Readers stand beyond the end of the log; then records follow, whose offsets are used for "
    "the second time.",
    right_client="finds with OffsetForLeaderEpoch where its epoch ended, or is answered OFFSET_OUT_OF_RANGE and begins by "
    "auto.offset.reset, here at the earliest record; it reads what follows",
    provoked="the stream pauses until all is committed; POST /v1/brokers/{id}/lead of each partition of the input topic with "
    "lose 8; the stream goes on when a position of each partition was asked for",
    sources=(_TRUNCATED, _EPOCHS),
    allows=Allows(rebalances=0, stall_s=40.0),
    is_alone=True,
    brokers=BROKERS,
)
async def log_truncated(stage: Stage) -> None:
    await _read_to_the_end(stage)
    mark = stage.mark()
    await _truncate(stage)

    async def noticed() -> bool:
        found = {
            row.at.partition
            for entry in stage.observation.since(mark.entries)
            if entry.api in _ASKED_FOR_POSITIONS
            for row in rows(entry.response)
            if row.at.topic == stage.topic
        }
        return len(found) == stage.producer.partitions

    # A client that does not ask goes on where it was, and reads nothing until the log is as long as it was.
    with suppress(NotReached):
        await stage.until(noticed, "a question for the position in each partition", _NOTICED_WITHIN_S)
    stage.producer.start()
    await stage.reads_on()


@event(
    "log-overwritten",
    protocols=BOTH,
    happens="An unclean election as in log-truncated, while all instances are stopped for a moment: when they go on, the log "
    "is longer than before, and has other records below their positions.",
    right_client="finds with OffsetForLeaderEpoch where its epoch ended, and reads from there on what it has not seen",
    provoked="the stream pauses until all is committed; SIGSTOP of all; POST /v1/brokers/{id}/lead with lose 8; SIGCONT when "
    "the stream has appended twelve records",
    sources=(_TRUNCATED, _EPOCHS),
    allows=Allows(rebalances=0, stall_s=40.0),
    is_alone=True,
    brokers=BROKERS,
)
async def log_overwritten(stage: Stage) -> None:
    # By topic: an instance sends to several brokers, and its listener is at one of them.
    knows_epochs = {"Topics[].Partitions[].CurrentLeaderEpoch": {">=": 0}}
    fetch = await stage.fault(topic=stage.topic, api="Fetch", where=knows_epochs, observe=True)
    try:
        await stage.acted(fetch, within_s=10.0)
    except NotReached:
        raise NotApplicable("its Fetches name no leader epoch (KIP-320), so it cannot know and loses records") from None
    await _read_to_the_end(stage)
    for each in stage.instances:
        stage.pause(each)
    ends = await _truncate(stage)
    stage.producer.start()
    await _has_records(stage, {partition: end + _OVERTAKES for partition, end in ends.items()})
    for each in stage.instances:
        stage.resume(each)
    await stage.reads_on()


@event(
    "replicas-change-racks",
    protocols=BOTH,
    happens="Instances read from the replica in their rack. The replicas of each partition move to one broker in another rack, "
    "and come back.",
    right_client="reads on from its position at the broker that has the partition, as Metadata and the leader say; it may "
    "assign again",
    provoked="CLIENT_RACK of each instance; AlterPartitionReassignments of each partition of the input topic to one broker, "
    "and to all",
    sources=(
        Source(
            "KIP-392",
            "a follower that has no replica any more answers NOT_LEADER_OR_FOLLOWER: the consumer asks the leader again",
        ),
        Source(
            "KIP-881, KIP-1101", "racks of partitions that change make the leader, or the coordinator, assign again"
        ),
    ),
    allows=Allows(rebalances=4, stall_s=30.0),
    is_alone=True,
    brokers=BROKERS,
    has_racks=True,
)
async def replicas_change_racks(stage: Stage) -> None:
    everywhere = range(1, BROKERS + 1)
    leaders = await asyncio.to_thread(_leaders, stage, stage.topic)
    try:
        await _move(stage, {partition: [_next(leader)] for partition, leader in leaders.items()})
        await stage.reads_on()
    finally:
        await _move(stage, {partition: [_next(leader), *everywhere] for partition, leader in leaders.items()})
    await stage.reads_on()


async def _read_to_the_end(stage: Stage) -> None:
    """Ends the stream when there is something to lose, and waits until all of it is committed. Raises NotReached."""
    await _has_records(stage, dict.fromkeys(range(stage.producer.partitions), 2 * _LOST))
    await stage.producer.stop()
    stage.note("the stream of records pauses")
    await stage.caught_up()


async def _has_records(stage: Stage, ends: Mapping[int, int]) -> None:
    """Waits until the partitions of the topic end there or later. Raises NotReached."""

    async def reached() -> bool:
        found = await asyncio.to_thread(stage.topics.ends, stage.topic, stage.producer.partitions)
        return all(found[partition] >= end for partition, end in ends.items())

    await stage.until(reached, "enough records in every partition")


async def _truncate(stage: Stage) -> Mapping[int, int]:
    """Each partition of the topic gets a leader that lacks its last records. Returns where the partitions ended before."""
    await asyncio.to_thread(stage.topics.inputs)
    ends = await asyncio.to_thread(stage.topics.ends, stage.topic, stage.producer.partitions)
    stage.note(f"the last {_LOST} records of each partition are lost")
    for partition, leader in (await asyncio.to_thread(_leaders, stage, stage.topic)).items():
        began_ms = now_ms()
        led = await stage.control.broker(_next(leader)).lead(topic=stage.topic, partition=partition, lose=_LOST)
        assert led.end_offset is not None
        stage.topics.truncated(Truncation(began_ms, partition, led.end_offset, ends[partition]))
    return ends


async def _move(stage: Stage, replicas: Mapping[int, Sequence[int]]) -> None:
    """Moves the replicas of partitions of the topic to these brokers, each named once or more. Raises OperationFailed."""
    stage.note(f"replicas of {stage.topic}: {dict(replicas)}")
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(
        name=stage.topic,
        partitions=[
            AlterPartitionReassignmentsRequest.ReassignablePartition(
                partition_index=partition, replicas=list(dict.fromkeys(brokers))
            )
            for partition, brokers in replicas.items()
        ],
    )

    def ask() -> None:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            answer = client.any().ask(AlterPartitionReassignmentsRequest(timeout_ms=client.timeout_ms, topics=[topic]))
        refuse_error(answer.error_code, "cannot move replicas", answer.error_message)
        for each in answer.responses[0].partitions:
            refuse_error(each.error_code, f"cannot move partition {each.partition_index}", each.error_message)

    await asyncio.to_thread(ask)


def _next(broker: int) -> int:
    return broker % BROKERS + 1


async def _move_coordinator(stage: Stage) -> int:
    """Makes another broker the group's coordinator, and returns its id."""
    broker = _next(await _coordinator(stage))
    stage.note(f"broker {broker} becomes the coordinator")
    await stage.control.broker(broker).lead(group=stage.group)
    return broker


async def _coordinator(stage: Stage) -> int:
    """The id of the broker that coordinates the group."""

    def find() -> int:
        with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
            # Version 3 is the last one with a single key.
            return client.any().ask(FindCoordinatorRequest(key=stage.group, key_type=0), version_max=3).node_id

    return await asyncio.to_thread(find)


def _leaders(stage: Stage, topic: str) -> dict[int, int]:
    """Partition -> the id of the broker that leads it."""
    with Client(stage.server.bootstrap, ANSWERED_WITHIN_S) as client:
        return {each.partition_index: each.leader_id for each in client.metadata([topic]).topics[0].partitions}


EVENTS = (
    coordinator_moves,
    coordinator_moves_while_joining,
    coordinator_moves_before_the_assignment,
    coordinator_moves_after_the_assignment,
    coordinator_broker_down,
    leaders_move,
    log_truncated,
    log_overwritten,
    replicas_change_racks,
)
