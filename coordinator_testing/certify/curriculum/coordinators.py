"""All groups: coordinators that move, load, and die."""

from coordinator_testing.certify.event import PROTOCOLS, Allows, Source, event
from coordinator_testing.certify.stage import Stage

_FIND_AGAIN = Source(
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator.markCoordinatorUnknown",
    "NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE: the coordinator is looked up again, and membership goes on",
)
_LOADING = Source(
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.OffsetCommitResponseHandler",
    "COORDINATOR_LOAD_IN_PROGRESS is retried at the same coordinator",
)
_LOADED = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.onLoaded",
    "a group that was preparing a rebalance goes on with it, and the sessions of all members begin again",
)
_PROPOSAL = Source(
    "Kafka Client-side Assignment Proposal, Coordinator Failover",
    "a new coordinator goes on from what is durable: members join again, or wait for the leader's assignment",
)


@event(
    "coordinator-moved",
    protocols=PROTOCOLS,
    happens="For 3 s every request of the group is answered with NOT_COORDINATOR.",
    right_client="looks the coordinator up until it answers, and goes on as the member that it was",
    provoked="a rule: coordinator moved, for 3 s",
    sources=(_FIND_AGAIN,),
    allows=Allows(rebalances=0),
)
async def coordinator_moved(stage: Stage) -> None:
    fault = await stage.fault(coordinator="moved", for_ms=3_000)
    await stage.acted(fault, len(stage.instances))


@event(
    "coordinator-unavailable",
    protocols=PROTOCOLS,
    happens="For 3 s every request of the group is answered with COORDINATOR_NOT_AVAILABLE.",
    right_client="tries again until the coordinator answers, and goes on as the member that it was",
    provoked="a rule: coordinator unavailable, for 3 s",
    sources=(_FIND_AGAIN,),
    allows=Allows(rebalances=0),
)
async def coordinator_unavailable(stage: Stage) -> None:
    fault = await stage.fault(coordinator="unavailable", for_ms=3_000)
    await stage.acted(fault, len(stage.instances))


@event(
    "coordinator-loading",
    protocols=PROTOCOLS,
    happens="The coordinator fails over: NOT_COORDINATOR, then COORDINATOR_LOAD_IN_PROGRESS for 10 s.",
    right_client="tries again until the coordinator has loaded, and goes on as the member that it was",
    provoked="POST /v1/groups/{group}/reload with for_ms 10000",
    sources=(_LOADING, _FIND_AGAIN),
    allows=Allows(rebalances=0, stall_s=35),
    is_alone=True,
)
async def coordinator_loading(stage: Stage) -> None:
    await stage.reload(for_ms=10_000)
    await stage.stable()


@event(
    "coordinator-killed-while-joining",
    protocols=("classic",),
    happens="kill -9 of the coordinator while members join: what they said is lost (failure case 1).",
    right_client="joins again with the member id that it has",
    provoked="SIGSTOP of a follower, a forced rebalance, the others join; kill -9 of the server, and a start; SIGCONT",
    sources=(_PROPOSAL, _FIND_AGAIN),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
)
async def coordinator_killed_while_joining(stage: Stage) -> None:
    follower = await stage.follower()
    stage.pause(follower)
    await stage.rebalance()
    await stage.joined(len(stage.instances) - 1)
    await stage.kill_server()
    stage.resume(follower)
    await stage.stable()


@event(
    "coordinator-killed-before-the-assignment",
    protocols=("classic",),
    happens="kill -9 of the coordinator when members know the generation and the leader has not assigned (failure case 2).",
    right_client="sends SyncGroup again, or joins again",
    provoked="a rule holds the leader's SyncGroup during a forced rebalance; kill -9 of the server, and a start",
    sources=(_PROPOSAL, _FIND_AGAIN),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
)
async def coordinator_killed_before_the_assignment(stage: Stage) -> None:
    fault = await stage.fault(await stage.leader(), api="SyncGroup", hold="request")
    await stage.rebalance()
    await stage.held(fault)
    await stage.kill_server()
    await stage.stable()


@event(
    "coordinator-killed-after-the-assignment",
    protocols=("classic",),
    happens="kill -9 of the coordinator when the assignment is stored and a member has not received it (failure case 3).",
    right_client="sends SyncGroup again, or joins again",
    provoked="a rule holds a follower's SyncGroup during a forced rebalance; kill -9 of the server, and a start",
    sources=(_PROPOSAL, _FIND_AGAIN),
    allows=Allows(rebalances=3, stall_s=35),
    is_alone=True,
)
async def coordinator_killed_after_the_assignment(stage: Stage) -> None:
    fault = await stage.fault(await stage.follower(), api="SyncGroup", hold="request")
    await stage.rebalance()
    await stage.held(fault)
    await stage.control.group(stage.group).wait(state="Stable")
    await stage.kill_server()
    await stage.stable()


@event(
    "coordinator-killed",
    protocols=PROTOCOLS,
    happens="kill -9 of the coordinator while the group is stable, and a start (failure case 4).",
    right_client="connects again and goes on as the member that it was",
    provoked="kill -9 of the server, and a start with the same data",
    sources=(_PROPOSAL, _LOADED, _FIND_AGAIN),
    allows=Allows(rebalances=0, stall_s=35),
    is_alone=True,
)
async def coordinator_killed(stage: Stage) -> None:
    await stage.kill_server()
    await stage.stable()


EVENTS = (
    coordinator_moved,
    coordinator_unavailable,
    coordinator_loading,
    coordinator_killed_while_joining,
    coordinator_killed_before_the_assignment,
    coordinator_killed_after_the_assignment,
    coordinator_killed,
)
