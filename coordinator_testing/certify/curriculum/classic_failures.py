"""Classic groups: members that die, fall silent, and come back as zombies."""

from coordinator_testing.certify.event import Allows, Source, event
from coordinator_testing.certify.stage import Stage

_SESSION = Source(
    "org.apache.kafka.coordinator.group.GroupMetadataManager.expireClassicGroupMemberHeartbeat",
    "removes a member that was silent for its session timeout, and prepares a rebalance",
)
_COMMIT_REFUSED = Source(
    "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.OffsetCommitResponseHandler",
    "UNKNOWN_MEMBER_ID: the member resets its generation and must join again",
)


@event(
    "follower-killed",
    protocols=("classic",),
    happens="kill -9 of an instance whose member does not lead the group; its session expires.",
    right_client="reads the partitions of the dead member from their committed offsets",
    provoked="kill -9, then the session expires by command",
    sources=(_SESSION,),
    allows=Allows(rebalances=1),
)
async def follower_killed(stage: Stage) -> None:
    follower = await stage.follower()
    member_id = await stage.member_of(follower)
    await stage.kill(follower)
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "leader-killed",
    protocols=("classic",),
    happens="kill -9 of the instance whose member leads the group; its session expires.",
    right_client="lets another member lead, and reads the partitions of the dead one from their committed offsets",
    provoked="kill -9, then the session expires by command",
    sources=(_SESSION,),
    allows=Allows(rebalances=1),
)
async def leader_killed(stage: Stage) -> None:
    leader = await stage.leader()
    member_id = await stage.member_of(leader)
    await stage.kill(leader)
    await stage.expire_member(member_id)
    await stage.stable()


@event(
    "rolling-restart",
    protocols=("classic", "consumer", "streams"),
    happens="The instances are stopped and started one after the other, in an orderly way.",
    right_client="commits what it has processed, leaves the group and ends; the others take over at once",
    provoked="SIGTERM and a start, for each instance",
    sources=(
        Source(
            "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator.close",
            "commits synchronously where auto-commit is on, and leaves the group",
        ),
    ),
    allows=Allows(rebalances=0, rebalances_per_instance=2),
)
async def rolling_restart(stage: Stage) -> None:
    for each in stage.instances:
        await stage.stop(each)
        await stage.stable()
        await stage.start(each)
        await stage.stable()


@event(
    "pause-and-zombie-commit",
    protocols=("classic",),
    happens="An instance is stopped for longer than its session, so its partitions go to others. Then it goes on, a zombie.",
    right_client="drops what it owned when its requests are refused with UNKNOWN_MEMBER_ID, and joins again",
    provoked="SIGSTOP, the session expires by command, the others read on, SIGCONT",
    sources=(_SESSION, _COMMIT_REFUSED),
    allows=Allows(rebalances=2),
)
async def pause_and_zombie_commit(stage: Stage) -> None:
    zombie = await stage.follower()
    stage.pause(zombie)
    await stage.expire_member(await stage.member_of(zombie))
    await stage.stable(len(stage.instances) - 1)
    await stage.progress()
    stage.resume(zombie)
    await stage.stable(len(stage.instances))


EVENTS = (rolling_restart, follower_killed, leader_killed, pause_and_zombie_commit)
