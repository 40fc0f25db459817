"""Classic groups: members that die, fall silent, and come back as zombies."""

from coordinator.certify.event import Allows, Source, event
from coordinator.certify.stage import Stage

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
    await stage.kill(follower)
    await stage.expire_session(follower)
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
    await stage.expire_session(zombie)
    await stage.stable(len(stage.instances) - 1)
    await stage.progress()
    stage.resume(zombie)
    await stage.stable(len(stage.instances))


EVENTS = (follower_killed, pause_and_zombie_commit)
