"""A server of three brokers (`serve --nodes 3`): coordinators and leaders that move between them, and brokers that go down.

Few of these events need a rule: the old broker answers as Kafka does, and the client has to find the new one. A broker is the
same for all groups, so these events are alone.
"""

import asyncio

from coordinator.operations.client import Client
from coordinator.protocol.messages import FindCoordinatorRequest
from coordinator_testing.certify.event import PROTOCOLS, Allows, Protocol, Source, event
from coordinator_testing.certify.records import ANSWERED_WITHIN_S
from coordinator_testing.certify.stage import Stage

BROKERS = 3
BOTH: tuple[Protocol, ...] = ("classic", "consumer")
_SEED = 1
"""The broker whose address the instances were given: it stays up, so that they can begin again."""

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
    protocols=BOTH,
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
    for turn in range(2):
        for topic in filter(None, (stage.topic, stage.output_topic)):
            stage.note(f"the leaders of {topic} move")
            for partition, leader in (await asyncio.to_thread(_leaders, stage, topic)).items():
                await stage.control.broker(_next(leader)).lead(topic=topic, partition=partition)
        if turn == 0:
            await stage.progress()
    await stage.progress()


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
)
